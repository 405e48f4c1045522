// biasdef_select in Python, from scores or from vectors: check, hold, release the GIL, call.
#include <pybind11/gil_safe_call_once.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "biasdef_arguments.hpp"
#include "biasdef_options.hpp"
#include "epibias/biasdef_select.hpp"
#include "module.hpp"

namespace epibias::bindings {

namespace {

// Names as numpy's "<U5" holds them: five code points of four bytes, filled with zeros.
using SideName = std::array<char32_t, 5>;

SideName name_of(DroppedSide side) {
    switch (side) {
        case DroppedSide::kRight:
            return {U'r', U'i', U'g', U'h', U't'};
        case DroppedSide::kLeft:
            return {U'l', U'e', U'f', U't', 0};
        case DroppedSide::kNone:
            break;
    }
    return {U'n', U'o', U'n', U'e', 0};
}

// Read from its text once: that takes half a microsecond.
const py::dtype& side_dtype() {
    PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::dtype> stored;
    return stored.call_once_and_store_result([] { return py::dtype("<U5"); }).get_stored();
}

// The order of a batch, and one value a query; what `selection` makes of them goes to Python.
class SelectedArrays {
  public:
    SelectedArrays(std::int64_t n_candidates, std::int64_t n_queries)
        : n_queries_(static_cast<std::size_t>(n_queries)),
          order_(static_cast<std::size_t>(n_candidates)),
          sides_(n_queries_),
          n_selected_(n_queries),
          n_kept_(n_queries),
          n_moved_(n_queries),
          sweep_thresholds_(n_queries),
          divergences_(n_queries),
          p_values_(n_queries) {
        result_ = {order_,
                   filled_span(n_selected_),
                   filled_span(n_kept_),
                   filled_span(n_moved_),
                   sides_,
                   filled_span(sweep_thresholds_),
                   filled_span(divergences_),
                   filled_span(p_values_)};
    }

    [[nodiscard]] const BiasDefResult& result() const { return result_; }

    // (indices, offsets, positions, dropped, dropped_offsets, kept, kept_offsets, diagnostics):
    // ragged arrays, each with where its queries start.
    [[nodiscard]] py::tuple selection(std::span<const std::int64_t> indices,
                                      std::span<const std::int64_t> offsets, std::int64_t k,
                                      bool gated) {
        std::size_t n_selected = 0, n_dropped = 0;
        for (std::size_t query = 0; query < n_queries_; ++query) {
            n_selected += static_cast<std::size_t>(result_.n_selected[query]);
            n_dropped +=
                static_cast<std::size_t>(offsets[query + 1] - offsets[query] - n_left(query));
        }
        Ragged positions(n_selected, n_queries_), dropped(n_dropped, n_queries_),
            kept(order_.size() - n_dropped, n_queries_);
        py::array_t<std::int64_t> selected(static_cast<py::ssize_t>(n_selected));
        auto* selected_at = selected.mutable_data();
        for (std::size_t query = 0; query < n_queries_; ++query) {
            const auto start = static_cast<std::size_t>(offsets[query]);
            const auto stop = static_cast<std::size_t>(offsets[query + 1]);
            const auto own = std::span(order_).subspan(start, stop - start);
            const auto own_indices = indices.subspan(start, stop - start);
            const auto chosen = own.first(static_cast<std::size_t>(result_.n_selected[query]));
            positions.append(chosen);
            for (const std::int64_t position : chosen) {
                *selected_at++ = own_indices[static_cast<std::size_t>(position)];
            }
            const auto left = static_cast<std::size_t>(n_left(query));
            std::int64_t* dropped_at = dropped.append(own.subspan(left));
            for (std::size_t i = left; i < own.size(); ++i) {
                *dropped_at++ = own_indices[static_cast<std::size_t>(own[i])];
            }
            std::int64_t* kept_at = kept.append(own.first(left));
            // Ascending already, unless refilled ones stand behind the kept.
            if (n_refilled(query) > 0) std::sort(kept_at, kept_at + left);
        }
        return py::make_tuple(selected, positions.offsets, positions.values, dropped.values,
                              dropped.offsets, kept.values, kept.offsets, diagnostics(k, gated));
    }

  private:
    // Flat values of all queries, and where each query's start.
    struct Ragged {
        Ragged(std::size_t n_values, std::size_t n_queries)
            : values(static_cast<py::ssize_t>(n_values)),
              offsets(static_cast<py::ssize_t>(n_queries + 1)),
              next_value(values.mutable_data()),
              next_offset(offsets.mutable_data()) {
            *next_offset++ = 0;
        }
        // Adds one query's values; returns where they are.
        std::int64_t* append(std::span<const std::int64_t> own) {
            std::int64_t* const first = next_value;
            next_value = std::copy(own.begin(), own.end(), first);
            *next_offset++ = next_value - values.data();
            return first;
        }
        py::array_t<std::int64_t> values, offsets;
        std::int64_t* next_value;
        std::int64_t* next_offset;
    };

    // Candidates that a later defence may choose from.
    [[nodiscard]] std::int64_t n_left(std::size_t query) const {
        return std::max(result_.n_kept[query], result_.n_selected[query]);
    }
    [[nodiscard]] std::int64_t n_refilled(std::size_t query) const {
        return n_left(query) - result_.n_kept[query];
    }

    [[nodiscard]] py::dict diagnostics(std::int64_t k, bool gated) {
        const auto n = static_cast<py::ssize_t>(n_queries_);
        py::array_t<bool> is_short(n);
        py::array_t<float> thresholds(n);
        py::array_t<std::int64_t> refilled(n);
        py::array side_names(side_dtype(), std::vector<py::ssize_t>{n});
        auto* name_at = static_cast<unsigned char*>(side_names.mutable_data());
        for (std::size_t query = 0; query < n_queries_; ++query) {
            const auto row = static_cast<py::ssize_t>(query);
            const bool filtered = sides_[query] != DroppedSide::kNone;
            is_short.mutable_at(row) = result_.n_selected[query] < k;
            thresholds.mutable_at(row) =
                filtered ? result_.sweep_thresholds[query] : std::numeric_limits<float>::infinity();
            refilled.mutable_at(row) = n_refilled(query);
            if (!gated) result_.p_values[query] = std::numeric_limits<double>::quiet_NaN();
            const SideName name = name_of(sides_[query]);
            std::memcpy(name_at + query * sizeof(name), name.data(), sizeof(name));
        }
        py::dict values;
        values["n_selected"] = n_selected_;
        values["short"] = is_short;
        values["threshold"] = thresholds;
        values["sweep_threshold"] = sweep_thresholds_;
        values["divergence"] = divergences_;
        values["p_value"] = p_values_;
        values["n_kept"] = n_kept_;
        values["side"] = side_names;
        values["n_moved"] = n_moved_;
        values["n_refilled"] = refilled;
        return values;
    }

    std::size_t n_queries_;
    std::vector<std::int64_t> order_;
    std::vector<DroppedSide> sides_;
    py::array_t<std::int64_t> n_selected_, n_kept_, n_moved_;
    py::array_t<float> sweep_thresholds_;
    py::array_t<double> divergences_, p_values_;
    BiasDefResult result_;
};

std::int64_t queries_between(std::span<const std::int64_t> offsets) {
    return std::max<std::int64_t>(std::ssize(offsets) - 1, 0);
}

bool is_gated(const py::dict& parameters) {
    return !parameters["gate"].is_none();
}

py::tuple biasdef_select(const py::object& similarities, const py::object& scores,
                         const py::object& offsets, const py::object& indices,
                         const py::dict& parameters, const py::object& neutral_centres,
                         const py::object& query_ids, const std::string& precision) {
    HeldSpan<float> similarity_span("similarities", similarities);
    HeldSpan<float> score_span("scores", scores);
    HeldSpan<std::int64_t> offset_span("offsets", offsets);
    HeldSpan<std::int64_t> index_span("indices", indices);
    HeldSpan<double> centre_span("neutral_centres", neutral_centres);
    HeldSpan<std::int64_t> id_span("query_ids", query_ids);
    const BiasDefInput given{similarity_span.values(), score_span.values(), offset_span.values(),
                             centre_span.values()};
    const auto index_values = index_span.values();
    if (index_values.size() != given.similarities.size()) {
        throw std::invalid_argument(
            "indices: expected " + std::to_string(given.similarities.size()) +
            " rows, as many as similarities, got " + std::to_string(index_values.size()));
    }
    BiasDefOptions options = options_of(parameters, precision);
    options.sweep.query_ids = id_span.values();
    SelectedArrays arrays(std::ssize(given.similarities), queries_between(given.offsets));
    {
        const py::gil_scoped_release released;
        epibias::biasdef_select(given, arrays.result(), options);
    }
    return arrays.selection(index_values, given.offsets, options.k, is_gated(parameters));
}

py::tuple biasdef_select_vectors(const py::object& query_embeddings,
                                 const py::object& candidate_embeddings, const py::object& offsets,
                                 const py::object& indices, const py::object& ps_embeddings,
                                 const py::object& axes, const py::dict& parameters,
                                 const py::object& axis_of_query, const py::object& score_offsets,
                                 bool normalize, const py::object& neutral_centres,
                                 const py::object& query_ids, const std::string& precision) {
    CandidateArguments candidates(query_embeddings, candidate_embeddings, offsets, indices,
                                  ps_embeddings, axes, axis_of_query, score_offsets, normalize);
    HeldSpan<double> centre_span("neutral_centres", neutral_centres);
    HeldSpan<std::int64_t> id_span("query_ids", query_ids);
    const auto ranked_indices = filled_span(candidates.ranked_indices);
    const auto offset_values = candidates.row_offsets.values();
    const BiasDefInput given{filled_span(candidates.similarities), filled_span(candidates.scores),
                             offset_values, centre_span.values()};
    BiasDefOptions options = options_of(parameters, precision);
    options.sweep.query_ids = id_span.values();
    SelectedArrays arrays(std::ssize(given.similarities), queries_between(offset_values));
    {
        const py::gil_scoped_release released;
        candidates.rank();
        epibias::biasdef_select(given, arrays.result(), options);
    }
    return arrays.selection(ranked_indices, offset_values, options.k, is_gated(parameters));
}

}  // namespace

void bind_biasdef_select(py::module_& module) {
    module.def("biasdef_select", &biasdef_select, py::arg("similarities"), py::arg("scores"),
               py::arg("offsets"), py::arg("indices"), py::arg("parameters"),
               py::arg("neutral_centres") = py::none(), py::arg("query_ids") = py::none(),
               py::arg("precision") = "float64",
               "BiasDef of scored candidates: the parts of a Selection.");
    module.def("biasdef_select_vectors", &biasdef_select_vectors, py::arg("query_embeddings"),
               py::arg("candidate_embeddings"), py::arg("offsets"), py::arg("indices"),
               py::arg("ps_embeddings"), py::arg("axes"), py::arg("parameters"),
               py::arg("axis_of_query") = py::none(), py::arg("score_offsets") = py::none(),
               py::arg("normalize").noconvert() = true, py::arg("neutral_centres") = py::none(),
               py::arg("query_ids") = py::none(), py::arg("precision") = "float64",
               "rank_candidates, then biasdef_select, in one call.");
}

}  // namespace epibias::bindings
