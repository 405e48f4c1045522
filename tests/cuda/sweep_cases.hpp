// What: queries for the tests of the sweep and of BiasDef on a device: seeded, with one-sided
// groups, ties, lattices and equal scores.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "epibias/matrix_view.hpp"

namespace epibias::test {

struct SweepCase {
    std::int64_t n_queries = 0, n = 0;
    std::vector<float> similarities, scores;

    [[nodiscard]] MatrixView<const float> similarity_view() const {
        return {similarities.data(), n_queries, n};
    }
    [[nodiscard]] MatrixView<const float> score_view() const {
        return {scores.data(), n_queries, n};
    }
};

// Every fourth query has tied similarities, every fourth scores on a lattice, every seventh equal
// scores; the share of the one-sided group and its shift vary.
inline SweepCase sweep_case(std::int64_t n_queries, std::int64_t n, unsigned seed) {
    std::mt19937 generator(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::normal_distribution<float> normal;
    SweepCase made{n_queries, n, {}, {}};
    for (std::int64_t query = 0; query < n_queries; ++query) {
        const float scale = std::pow(10.0F, 2 * uniform(generator));
        const float shift = 4 * uniform(generator), cut = uniform(generator);
        for (std::int64_t i = 0; i < n; ++i) {
            float similarity = uniform(generator);
            float score = normal(generator) + (similarity > cut ? shift : 0.0F);
            if (query % 4 == 1) similarity = std::round(similarity * 5) / 5;
            if (query % 4 == 2) score = std::round(score * 2) / 2;
            if (query % 7 == 6) score = 0.3F;
            made.similarities.push_back(similarity);
            made.scores.push_back(score * scale);
        }
    }
    return made;
}

}  // namespace epibias::test
