// What: the arguments that rank_candidates and biasdef_select share, as numpy arrays that are held
// while the GIL is released.
#pragma once

#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "array_view.hpp"
#include "epibias/rank_candidates.hpp"

namespace epibias::bindings {

// A 1-d array, or None for an empty span; copied where its address is not aligned.
template <typename Value>
class HeldSpan {
  public:
    HeldSpan(const std::string& argument, const py::object& value)
        : view_(optional_array<Value>(argument, value, {1})) {
        if (view_) reader_.emplace(view_->matrix());
    }

    [[nodiscard]] std::span<const Value> values() {
        if (!view_ || !reader_) return {};
        return {reader_->row(0), static_cast<std::size_t>(view_->size())};
    }

  private:
    std::optional<ArrayView<Value>> view_;
    std::optional<RowReader<Value>> reader_;
};

template <typename Value>
std::span<Value> filled_span(py::array_t<Value>& array) {
    return {array.mutable_data(), static_cast<std::size_t>(array.size())};
}

// Marks to be filled.
[[nodiscard]] inline std::span<std::uint8_t> marks_of(py::array_t<bool>& array) {
    static_assert(sizeof(bool) == sizeof(std::uint8_t));
    return {reinterpret_cast<std::uint8_t*>(array.mutable_data()),
            static_cast<std::size_t>(array.size())};
}

// Rows, axes and offsets as Python gives them to rank_candidates, and its results.
class CandidateArguments {
  public:
    CandidateArguments(const py::object& queries, const py::object& candidates,
                       const py::object& offsets, const py::object& indices,
                       const py::object& ps_rows, const py::object& axes,
                       const py::object& axis_of_query, const py::object& score_offsets,
                       bool normalize);

    // Without the GIL.
    void rank();

    HeldSpan<std::int64_t> row_offsets;
    py::array_t<std::int64_t> ranked_rows, ranked_indices;
    py::array_t<float> similarities, scores;

  private:
    ArrayView<float> queries_, candidates_;
    HeldSpan<std::int64_t> indices_, axis_of_query_;
    std::optional<ArrayView<float>> ps_rows_;
    ArrayView<float> axes_;
    HeldSpan<double> score_offsets_;
    CandidateRows given_;
    RankedCandidates result_;
};

}  // namespace epibias::bindings
