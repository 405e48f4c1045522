#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "epibias/echo_shares.hpp"
#include "refusal.hpp"
#include "support.hpp"

namespace {

using epibias::TextView;
using epibias::test::message_of;

TextView view(const std::string& text) {
    return {text.data(), static_cast<std::int64_t>(text.size()), 1};
}

TextView view(const std::u16string& text) {
    return {text.data(), static_cast<std::int64_t>(text.size()), 2};
}

TextView view(const std::u32string& text) {
    return {text.data(), static_cast<std::int64_t>(text.size()), 4};
}

// Shares of one question.
std::vector<double> shares(const TextView& question, const std::vector<TextView>& passages,
                           std::vector<double> limits = {}) {
    const std::vector<TextView> questions = {question};
    const std::vector<std::int64_t> offsets = {0, std::ssize(passages)}, queries = {0};
    std::vector<double> values(passages.size(), -1);
    epibias::echo_shares({questions, passages, offsets, queries, limits}, values);
    return values;
}

}  // namespace

TEST_CASE("echo_shares: worked by hand") {
    const std::string question = "Ban cars?", all = "We BAN  (cars).", part = "bans", none = "No";
    const std::string empty, spaces = " ?!";
    // Triples of the question: " ba" "ban" "an " "n c" " ca" "car" "ars" "rs "; of "bans" the
    // first two are there.
    epibias::test::at_every_level([&](const std::string& level) {
        CAPTURE(level);
        CHECK(shares(view(question), {view(all), view(part), view(none), view(empty),
                                      view(spaces)}) == std::vector<double>{1, 0.25, 0, 0, 0});
        CHECK(shares(view(empty), {view(all)}) == std::vector<double>{0});
    });
}

TEST_CASE(
    "echo_shares: a wider window costs a twelfth; widths of letters and blocks do not matter") {
    std::string apart = "ban";
    for (int i = 0; i < 9; ++i) apart += " nothing";
    apart += " cars";
    const std::string question = "ban cars";
    const std::u16string wide(apart.begin(), apart.end());
    const std::u32string widest(apart.begin(), apart.end());
    // 7 of 8 triples ("n c" lacks) in 80 letters: windows of 16, 32, 64, 128, so three doublings.
    const double expected = 7.0 / 8 - 3.0 / 12;
    epibias::test::at_every_level([&](const std::string& level) {
        CAPTURE(level);
        const auto found = shares(view(question), {view(apart), view(wide), view(widest)});
        CHECK(found == std::vector<double>(3, expected));
        for (std::size_t n_before = 0; n_before < 70; ++n_before) {
            const std::string shifted = std::string(n_before, 'z') + " " + question;
            CHECK(shares(view(question), {view(shifted)}) == std::vector<double>{1});
        }
    });
}

TEST_CASE("echo_shares: limits, threads, and passages of other questions") {
    const std::string question = "ban cars", said = "they ban cars here", other = "bans";
    CHECK(shares(view(question), {view(said), view(other)}, {0.5})[0] > 0.5);
    CHECK(shares(view(question), {view(other)}, {0.5})[0] <= 0.5);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    CHECK(shares(view(question), {view(other)}, {nan}) == shares(view(question), {view(other)}));

    const std::vector<TextView> questions(40, view(question));
    std::vector<TextView> passages;
    std::vector<std::int64_t> offsets = {0}, queries;
    for (std::int64_t query = 0; query < 40; ++query) {
        passages.push_back(view(query % 2 == 0 ? said : other));
        offsets.push_back(query + 1);
        if (query % 3 != 0) queries.push_back(query);
    }
    std::vector<double> expected(40, -1);
    epibias::echo_shares({questions, passages, offsets, queries, {}}, expected, 1);
    CHECK(expected[0] == -1);
    CHECK(expected[2] == 1);
    for (const int n_threads : {2, 3}) {
        std::vector<double> values(40, -1);
        epibias::echo_shares({questions, passages, offsets, queries, {}}, values, n_threads);
        CHECK(values == expected);
    }
}

TEST_CASE("echo_shares: error texts") {
    const std::string text = "a";
    const std::vector<TextView> one = {view(text)};
    const std::vector<std::int64_t> offsets = {0, 1}, wrong = {0, 2}, queries = {0}, second = {1};
    const std::vector<double> two_limits = {1, 1};
    std::vector<double> values(1), none;
    CHECK(message_of([&] { epibias::echo_shares({one, one, wrong, queries, {}}, values); }) ==
          "offsets: expected offsets that rise from 0 to 1 (the number of candidates), got others");
    CHECK(message_of([&] { epibias::echo_shares({one, one, offsets, second, {}}, values); }) ==
          "queries: expected 0 to 0, got 1");
    CHECK(message_of([&] { epibias::echo_shares({one, one, offsets, queries, {}}, none); }) ==
          "shares: expected 1 values, as many as passages, got 0");
    CHECK(message_of([&] {
              epibias::echo_shares({one, one, offsets, queries, two_limits}, values);
          }) == "limits: expected 1 values, as many as questions, got 2");
    const std::vector<TextView> endless = {{text.data(), std::int64_t{1} << 31, 1}};
    CHECK(message_of([&] { epibias::echo_shares({one, endless, offsets, queries, {}}, values); }) ==
          "texts: expected fewer than 2147483648 letters each, got 2147483648");
}
