// What: what one thread holds of a search through codes, and what is left of a query at its end.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/quantized_scan_kernels.hpp"
#include "quantized_candidates.hpp"
#include "quantized_corpus.hpp"
#include "quantized_queries.hpp"
#include "quantized_rescore.hpp"
#include "topk_candidates.hpp"

namespace epibias {

// Made by the thread that uses it, so that its memory is near.
struct QuantizedScanner {
    QuantizedScanner(const QuantizedQueries& queries, const QuantizedCorpus& corpus, std::int64_t k,
                     std::size_t n_sums)
        : score(queries, corpus),
          candidates(static_cast<std::size_t>(queries.count())),
          limits(candidates.size(), 0),
          n_settled(candidates.size(), 0),
          exact(candidates.size(), ExactTopk(k)),
          filters(candidates.size()),
          sums(n_sums) {}
    CanonicalScorer score;
    std::vector<QuantizedCandidates> candidates;
    std::vector<std::int64_t> limits;  // of the number of candidates, before they are tidied
    std::vector<std::int64_t> n_settled;
    std::vector<ExactTopk> exact;
    std::vector<kernels::QueryFilter> filters;
    std::vector<std::int32_t> sums;
    std::vector<float> values;  // scratch, as are the rows
    std::vector<std::uint32_t> rows;
    std::int64_t n_rescored = 0;
};

// What is left of one query when all tiles have been scanned.
struct QuantizedLeftover {
    explicit QuantizedLeftover(std::int64_t k) : exact(k) {}
    QuantizedCandidates candidates;
    ExactTopk exact;
};

}  // namespace epibias
