#include "epibias/echo_shares.hpp"

#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "echo_reader.hpp"
#include "epibias/parallel.hpp"
#include "ragged.hpp"
#include "refuse.hpp"

namespace epibias {

namespace {

// A letter against a multiply-add of `threads_worth_waking`.
constexpr double kOperationsPerLetter = 40;

double letters_of(const EchoInput& given, std::size_t query) {
    double n_letters = 0;
    for (std::int64_t row = given.offsets[query]; row < given.offsets[query + 1]; ++row) {
        const TextView& passage = given.passages[static_cast<std::size_t>(row)];
        n_letters += static_cast<double>(passage.n_units);
    }
    return n_letters;
}

}  // namespace

void echo_shares(const EchoInput& given, std::span<double> shares, int n_threads) {
    const auto n_queries = std::ssize(given.questions);
    check_offsets(given.offsets, n_queries, std::ssize(given.passages));
    if (shares.size() != given.passages.size()) {
        refuse("shares", std::to_string(given.passages.size()) + " values, as many as passages",
               std::to_string(shares.size()));
    }
    if (!given.limits.empty() && given.limits.size() != given.questions.size()) {
        refuse("limits", std::to_string(n_queries) + " values, as many as questions",
               std::to_string(given.limits.size()));
    }
    double n_letters = 0;
    for (const std::int64_t query : given.queries) {
        if (query < 0 || query >= n_queries) {
            refuse("queries", "0 to " + std::to_string(n_queries - 1), std::to_string(query));
        }
        n_letters += letters_of(given, static_cast<std::size_t>(query));
    }
    const int threads =
        n_threads > 0 ? n_threads : threads_worth_waking(kOperationsPerLetter * n_letters);
    std::vector<EchoReader> readers(static_cast<std::size_t>(threads));
    const auto run = [&](std::int64_t task, int thread) {
        EchoReader& reader = readers[static_cast<std::size_t>(thread)];
        const auto query = static_cast<std::size_t>(given.queries[static_cast<std::size_t>(task)]);
        const double limit =
            given.limits.empty() ? std::numeric_limits<double>::quiet_NaN() : given.limits[query];
        reader.ask(given.questions[query]);
        for (std::int64_t row = given.offsets[query]; row < given.offsets[query + 1]; ++row) {
            const auto passage = static_cast<std::size_t>(row);
            reader.read(given.passages[passage]);
            shares[passage] = reader.share(limit);
        }
    };
    parallel_for(std::ssize(given.queries), run, threads);
}

}  // namespace epibias
