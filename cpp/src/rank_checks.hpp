// What: the checks of rank_candidates that look at shapes alone; shared with cuda/src.
#pragma once

#include <cstdint>
#include <string>

#include "epibias/rank_candidates.hpp"
#include "refuse.hpp"

namespace epibias::ranking {

inline void check_rows(const char* argument, const char* other, std::int64_t got,
                       std::int64_t expected) {
    if (got == expected) return;
    refuse(argument, std::to_string(expected) + " rows, as many as " + other, std::to_string(got));
}

inline void check_columns(const char* argument, const char* other, std::int64_t got,
                          std::int64_t expected) {
    if (got == expected) return;
    refuse(argument, std::to_string(expected) + " columns, as many as " + other,
           std::to_string(got));
}

inline void check_row_shapes(const CandidateRows& given) {
    const std::int64_t n_candidates = given.candidates.n_rows;
    check_columns("candidate_embeddings", "query_embeddings", given.candidates.n_columns,
                  given.queries.n_columns);
    if (!given.indices.empty()) {
        check_rows("indices", "candidate_embeddings", std::ssize(given.indices), n_candidates);
    }
    const bool own_rows = given.ps_rows.data != nullptr;
    if (own_rows) {
        check_rows("ps_embeddings", "candidate_embeddings", given.ps_rows.n_rows, n_candidates);
    }
    check_columns(own_rows ? "ps_embeddings" : "candidate_embeddings", "the axes",
                  own_rows ? given.ps_rows.n_columns : given.candidates.n_columns,
                  given.axes.n_columns);
    if (!given.score_offsets.empty()) {
        check_rows("score_offsets", "axes", std::ssize(given.score_offsets), given.axes.n_rows);
    }
}

inline void check_axis_choice(const CandidateRows& given) {
    const std::int64_t n_queries = given.queries.n_rows;
    if (!given.axis_of_query.empty()) {
        check_rows("axis_of_query", "query_embeddings", std::ssize(given.axis_of_query), n_queries);
    } else if (n_queries != 0 && given.axes.n_rows != 1 && given.axes.n_rows != n_queries) {
        refuse("axis_of_query",
               "the axis of each query, for " + std::to_string(given.axes.n_rows) + " axes",
               "none with " + std::to_string(n_queries) + " queries");
    }
}

}  // namespace epibias::ranking
