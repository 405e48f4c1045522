// biasdef_select, rank_candidates and both in one, on a device, for
// python/epibias/device/biasdef_select.py.
#include "bindings/biasdef_options.hpp"
#include "device_array.hpp"
#include "epibias/cuda/biasdef_select.hpp"
#include "module.hpp"

namespace epibias::cuda::bindings {

namespace {

template <typename Value>
std::span<Value> span_of(const DeviceArray<Value>& array) {
    return {array.data(), static_cast<std::size_t>(array.size())};
}

template <typename Value>
std::span<Value> span_or_none(const std::optional<DeviceArray<Value>>& array) {
    return array ? span_of(*array) : std::span<Value>{};
}

// An argument that was given must not look like one that was not.
template <typename Value>
void refuse_empty(const std::string& argument, const std::optional<DeviceArray<Value>>& array,
                  std::int64_t expected) {
    if (!array || array->size() > 0 || expected == 0) return;
    throw std::invalid_argument(argument + ": expected " + std::to_string(expected) +
                                " values, got 0");
}

// (query_embeddings, candidate_embeddings, offsets, indices, ps_embeddings, axes, axis_of_query,
// score_offsets, normalize), as kernels_select passes them.
class RowArguments {
  public:
    RowArguments(DeviceCall& call, const py::tuple& rows)
        : queries_(call, "query_embeddings", rows[0], {2}),
          candidates_(call, "candidate_embeddings", rows[1], {2}),
          offsets_(call, "offsets", rows[2], {1}),
          indices_(optional_device_array<const std::int64_t>(call, "indices", rows[3], {1})),
          ps_rows_(optional_device_array<const float>(call, "ps_embeddings", rows[4], {2})),
          axes_(call, "axes", rows[5], {2}),
          axis_of_query_(
              optional_device_array<const std::int64_t>(call, "axis_of_query", rows[6], {1})),
          score_offsets_(optional_device_array<const double>(call, "score_offsets", rows[7], {1})),
          normalize_(rows[8].cast<bool>()) {
        refuse_empty("indices", indices_, n_candidates());
        refuse_empty("axis_of_query", axis_of_query_, n_queries());
        refuse_empty("score_offsets", score_offsets_, axes_.shape(0));
        if (offsets_.size() != n_queries() + 1) {
            throw std::invalid_argument("offsets: expected " + std::to_string(n_queries() + 1) +
                                        " of them, one more than queries, got " +
                                        std::to_string(offsets_.size()));
        }
    }

    [[nodiscard]] std::int64_t n_queries() const { return queries_.shape(0); }
    [[nodiscard]] std::int64_t n_candidates() const { return candidates_.shape(0); }
    [[nodiscard]] CandidateRows view() const {
        CandidateRows rows;
        rows.queries = queries_.matrix();
        rows.candidates = candidates_.matrix();
        rows.offsets = span_of(offsets_);
        rows.indices = span_or_none(indices_);
        if (ps_rows_) rows.ps_rows = ps_rows_->matrix();
        rows.axes = axes_.matrix();
        rows.axis_of_query = span_or_none(axis_of_query_);
        rows.score_offsets = span_or_none(score_offsets_);
        rows.normalize = normalize_;
        return rows;
    }

  private:
    DeviceArray<const float> queries_, candidates_;
    DeviceArray<const std::int64_t> offsets_;
    std::optional<DeviceArray<const std::int64_t>> indices_;
    std::optional<DeviceArray<const float>> ps_rows_;
    DeviceArray<const float> axes_;
    std::optional<DeviceArray<const std::int64_t>> axis_of_query_;
    std::optional<DeviceArray<const double>> score_offsets_;
    bool normalize_;
};

// (rows, indices, similarities, scores)
class RankOutputs {
  public:
    RankOutputs(DeviceCall& call, const py::tuple& outputs, std::int64_t n_candidates)
        : rows_(call, "rows", outputs[0], {1}),
          indices_(call, "indices", outputs[1], {1}),
          similarities_(call, "similarities", outputs[2], {1}),
          scores_(call, "scores", outputs[3], {1}) {
        check_shape("rows", rows_, {n_candidates});
        check_shape("indices", indices_, {n_candidates});
        check_shape("similarities", similarities_, {n_candidates});
        check_shape("scores", scores_, {n_candidates});
    }
    [[nodiscard]] RankedCandidates view() const {
        return {span_of(rows_), span_of(indices_), span_of(similarities_), span_of(scores_)};
    }

  private:
    DeviceArray<std::int64_t> rows_, indices_;
    DeviceArray<float> similarities_, scores_;
};

// (order, n_selected, n_kept, n_moved, sides, sweep_thresholds, divergences, p_values)
class SelectOutputs {
  public:
    SelectOutputs(DeviceCall& call, const py::tuple& outputs, std::int64_t n_candidates,
                  std::int64_t n_queries)
        : order_(call, "order", outputs[0], {1}),
          n_selected_(call, "n_selected", outputs[1], {1}),
          n_kept_(call, "n_kept", outputs[2], {1}),
          n_moved_(call, "n_moved", outputs[3], {1}),
          sides_(call, "sides", outputs[4], {1}),
          thresholds_(call, "sweep_thresholds", outputs[5], {1}),
          divergences_(call, "divergences", outputs[6], {1}),
          p_values_(call, "p_values", outputs[7], {1}) {
        check_shape("order", order_, {n_candidates});
        check_shape("n_selected", n_selected_, {n_queries});
        check_shape("n_kept", n_kept_, {n_queries});
        check_shape("n_moved", n_moved_, {n_queries});
        check_shape("sides", sides_, {n_queries});
        check_shape("sweep_thresholds", thresholds_, {n_queries});
        check_shape("divergences", divergences_, {n_queries});
        check_shape("p_values", p_values_, {n_queries});
    }
    [[nodiscard]] BiasDefResult view() const {
        static_assert(sizeof(DroppedSide) == 1);
        auto* sides = reinterpret_cast<DroppedSide*>(sides_.data());
        return {span_of(order_),
                span_of(n_selected_),
                span_of(n_kept_),
                span_of(n_moved_),
                {sides, static_cast<std::size_t>(sides_.size())},
                span_of(thresholds_),
                span_of(divergences_),
                span_of(p_values_)};
    }

  private:
    DeviceArray<std::int64_t> order_, n_selected_, n_kept_, n_moved_;
    DeviceArray<std::uint8_t> sides_;
    DeviceArray<float> thresholds_;
    DeviceArray<double> divergences_, p_values_;
};

// (neutral_centres or None, query_ids or None)
class Keys {
  public:
    Keys(DeviceCall& call, const py::tuple& keys, std::int64_t n_queries)
        : centres_(optional_device_array<const double>(call, "neutral_centres", keys[0], {1})),
          ids_(optional_device_array<const std::int64_t>(call, "query_ids", keys[1], {1})) {
        refuse_empty("query_ids", ids_, n_queries);
    }
    [[nodiscard]] std::span<const double> centres() const { return span_or_none(centres_); }
    [[nodiscard]] std::span<const std::int64_t> ids() const { return span_or_none(ids_); }

  private:
    std::optional<DeviceArray<const double>> centres_;
    std::optional<DeviceArray<const std::int64_t>> ids_;
};

// The sizes of the queries lie on the device, so no query is known to be small.
std::int64_t select_workspace(std::int64_t n_queries, std::int64_t n_candidates,
                              bool from_vectors) {
    return static_cast<std::int64_t>(
        biasdef_select_workspace_bytes(n_queries, n_candidates, n_candidates, from_vectors));
}

std::int64_t rank_workspace(std::int64_t n_queries, std::int64_t n_candidates) {
    return static_cast<std::int64_t>(rank_candidates_workspace_bytes(n_queries, n_candidates));
}

void rank(const py::tuple& rows, const py::tuple& outputs, const py::object& workspace,
          const py::object& fault, std::uintptr_t stream) {
    DeviceCall call(stream);
    const RowArguments given(call, rows);
    const RankOutputs results(call, outputs, given.n_candidates());
    void* const memory =
        workspace_bytes(call, workspace, rank_workspace(given.n_queries(), given.n_candidates()));
    Fault* const record = fault_record(call, fault);
    call.run([&] { rank_candidates(given.view(), results.view(), memory, record, call.stream()); });
}

void select(const py::object& similarities, const py::object& scores, const py::object& offsets,
            const py::dict& parameters, const std::string& precision, const py::tuple& keys,
            const py::tuple& outputs, const py::object& workspace, const py::object& fault,
            std::uintptr_t stream) {
    DeviceCall call(stream);
    const DeviceArray<const float> xs(call, "similarities", similarities, {1});
    const DeviceArray<const float> ys(call, "scores", scores, {1});
    const DeviceArray<const std::int64_t> starts(call, "offsets", offsets, {1});
    const std::int64_t n_queries = starts.size() > 0 ? starts.size() - 1 : 0;
    const Keys given(call, keys, n_queries);
    const SelectOutputs results(call, outputs, xs.size(), n_queries);
    void* const memory =
        workspace_bytes(call, workspace, select_workspace(n_queries, xs.size(), false));
    Fault* const record = fault_record(call, fault);
    BiasDefOptions options = epibias::bindings::options_of(parameters, precision);
    options.sweep.query_ids = given.ids();
    call.run([&] {
        biasdef_select({span_of(xs), span_of(ys), span_of(starts), given.centres()}, results.view(),
                       options, xs.size(), memory, record, call.stream());
    });
}

void select_vectors(const py::tuple& rows, const py::dict& parameters, const std::string& precision,
                    const py::tuple& keys, const py::tuple& ranked, const py::tuple& outputs,
                    const py::object& workspace, const py::object& fault, std::uintptr_t stream) {
    DeviceCall call(stream);
    const RowArguments given(call, rows);
    const Keys own(call, keys, given.n_queries());
    const RankOutputs ranking(call, ranked, given.n_candidates());
    const SelectOutputs results(call, outputs, given.n_candidates(), given.n_queries());
    void* const memory = workspace_bytes(
        call, workspace, select_workspace(given.n_queries(), given.n_candidates(), true));
    Fault* const record = fault_record(call, fault);
    BiasDefOptions options = epibias::bindings::options_of(parameters, precision);
    options.sweep.query_ids = own.ids();
    call.run([&] {
        biasdef_select_vectors(given.view(), ranking.view(), own.centres(), results.view(), options,
                               given.n_candidates(), memory, record, call.stream());
    });
}

}  // namespace

void bind_biasdef_select(py::module_& module) {
    module.def("rank_candidates_workspace_bytes", &rank_workspace, py::arg("n_queries"),
               py::arg("n_candidates"), "Bytes of workspace that rank_candidates needs.");
    module.def("biasdef_select_workspace_bytes", &select_workspace, py::arg("n_queries"),
               py::arg("n_candidates"), py::arg("from_vectors"),
               "Bytes of workspace that biasdef_select or biasdef_select_vectors needs.");
    module.def("rank_candidates", &rank, py::arg("rows"), py::arg("outputs"), py::arg("workspace"),
               py::arg("fault"), py::arg("stream"),
               "rank_candidates into (rows, indices, similarities, scores).");
    module.def("biasdef_select", &select, py::arg("similarities"), py::arg("scores"),
               py::arg("offsets"), py::arg("parameters"), py::arg("precision"), py::arg("keys"),
               py::arg("outputs"), py::arg("workspace"), py::arg("fault"), py::arg("stream"),
               "biasdef_select into (order, n_selected, n_kept, n_moved, sides, sweep_thresholds, "
               "divergences, p_values).");
    module.def("biasdef_select_vectors", &select_vectors, py::arg("rows"), py::arg("parameters"),
               py::arg("precision"), py::arg("keys"), py::arg("ranked"), py::arg("outputs"),
               py::arg("workspace"), py::arg("fault"), py::arg("stream"),
               "rank_candidates into `ranked`, then biasdef_select of that into `outputs`.");
}

}  // namespace epibias::cuda::bindings
