// What: the candidates of one query on one thread: rows whose upper bound reached the threshold of
// the moment, each with the value that the codes gave and its margin: how far the similarity may
// lie from it, but for what the codes of the query lost. Flat arrays, which the kernels append to.
// Those appended last may be pending: only the first of two stages of codes has been read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/quantized_scan_kernels.hpp"
#include "topk_candidates.hpp"

namespace epibias {

// The rank-th largest of `values`, rank from 1; reorders them.
inline float nth_largest(std::vector<float>& values, std::int64_t rank) {
    const auto nth = values.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
    std::nth_element(values.begin(), nth, values.end(), std::greater<>());
    return *nth;
}

class QuantizedCandidates {
  public:
    static constexpr std::int64_t kRoom = 80;  // a kernel appends at most a tile, in whole vectors

    // Room for one more tile behind the candidates.
    void reserve() {
        const auto wanted = static_cast<std::size_t>(count_ + kRoom);
        if (values_.size() >= wanted) return;
        values_.resize(std::max(2 * values_.size(), wanted + kFewest));
        margins_.resize(values_.size());
        rows_.resize(values_.size());
    }

    [[nodiscard]] kernels::CandidateArrays end() {
        return {values_.data() + count_, margins_.data() + count_, rows_.data() + count_};
    }
    void added(int count) { count_ += count; }

    [[nodiscard]] std::int64_t n_pending() const { return count_ - n_settled_; }
    // Keeps of the pending ones those for which refine(row, value, margin) holds, which may change
    // both.
    template <typename Refine>
    void settle(Refine refine) {
        std::int64_t kept = n_settled_;
        for (std::int64_t number = n_settled_; number < count_; ++number) {
            float value = values_[at(number)];
            float margin = margins_[at(number)];
            const std::uint32_t own = rows_[at(number)];
            const bool stays = refine(std::int64_t{own}, value, margin);
            values_[at(kept)] = value;
            margins_[at(kept)] = margin;
            rows_[at(kept)] = own;
            kept += stays ? 1 : 0;
        }
        count_ = n_settled_ = kept;
    }

    [[nodiscard]] std::int64_t count() const { return count_; }
    [[nodiscard]] float value(std::int64_t number) const { return values_[at(number)]; }
    [[nodiscard]] float margin(std::int64_t number) const { return margins_[at(number)]; }
    [[nodiscard]] std::uint32_t row(std::int64_t number) const { return rows_[at(number)]; }
    void clear() { count_ = n_settled_ = 0; }

    // The rank-th largest value; `values` is scratch.
    [[nodiscard]] float nth_value(std::int64_t rank, std::vector<float>& values) const {
        values.assign(values_.begin(), values_.begin() + count_);
        return nth_largest(values, rank);
    }

    // Moves to the end of `rows` the rows of the candidates with a value of at least `least`.
    void take_from(float least, std::vector<std::uint32_t>& rows) {
        for (std::int64_t number = 0; number < count_; ++number) {
            if (values_[at(number)] >= least) rows.push_back(rows_[at(number)]);
        }
        keep_if([least](float value, float) { return value < least; });
    }

    void keep_rows_below(std::int64_t n_rows) {
        while (count_ > 0 && std::int64_t{row(count_ - 1)} >= n_rows)
            --count_;  // rows of a tile ascend
    }

    // Keeps, in their order, the candidates for which keep(value, margin) holds.
    template <typename Keep>
    void keep_if(Keep keep) {
        std::int64_t kept = 0;
        for (std::int64_t number = 0; number < count_; ++number) {
            const float value = values_[at(number)];
            const float margin = margins_[at(number)];
            values_[at(kept)] = value;
            margins_[at(kept)] = margin;
            rows_[at(kept)] = rows_[at(number)];
            kept += keep(value, margin) ? 1 : 0;
        }
        count_ = n_settled_ = kept;
    }

    void append(const QuantizedCandidates& other) {
        const auto wanted = static_cast<std::size_t>(count_ + other.count_);
        values_.resize(std::max(values_.size(), wanted));
        margins_.resize(values_.size());
        rows_.resize(values_.size());
        std::copy_n(other.margins_.begin(), other.count_, margins_.begin() + count_);
        std::copy_n(other.values_.begin(), other.count_, values_.begin() + count_);
        std::copy_n(other.rows_.begin(), other.count_, rows_.begin() + count_);
        count_ += other.count_;
        n_settled_ = count_;
    }

  private:
    static constexpr std::size_t kFewest = 176;
    static std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

    std::int64_t count_ = 0;
    std::int64_t n_settled_ = 0;
    std::vector<float> values_;
    std::vector<float> margins_;
    std::vector<std::uint32_t> rows_;
};

}  // namespace epibias
