// What: the text of the std::invalid_argument that a call throws.
#pragma once

#include <stdexcept>
#include <string>

namespace epibias::test {

template <typename Call>
std::string message_of(const Call& call) {
    try {
        call();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "nothing was thrown";
}

}  // namespace epibias::test
