// What: the one form of a user's error: `argument: expected …, got …`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace epibias {

[[noreturn]] inline void refuse(const std::string& argument, const std::string& expected,
                                const std::string& got) {
    throw std::invalid_argument(argument + ": expected " + expected + ", got " + got);
}

inline void check_at_least(const std::string& argument, std::int64_t value, std::int64_t low) {
    if (value >= low) return;
    refuse(argument, "an integer of at least " + std::to_string(low), std::to_string(value));
}

inline void check_count(const std::string& argument, const std::string& other, std::size_t got,
                        std::size_t expected) {
    if (got == expected) return;
    refuse(argument, std::to_string(expected) + " values, as many as " + other,
           std::to_string(got));
}

// As Python prints it, to nine digits: 0.025, 1e-12, nan, inf.
[[nodiscard]] inline std::string number_text(double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.9g", value);
    return text;
}

[[nodiscard]] inline std::string shape_text(std::int64_t n_rows, std::int64_t n_columns) {
    std::string text = "(";
    text += std::to_string(n_rows) + ", " + std::to_string(n_columns) + ")";
    return text;
}

}  // namespace epibias
