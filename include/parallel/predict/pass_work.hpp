// pass_work: what the passes of a model's parts compute and exchange, found by running each once on
// the meta device.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <parallel/cluster/operation_work.hpp>
#include <parallel/device/arena.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/pipeline/plan.hpp>
#include <parallel/train/parts.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/setup/stage.hpp>
#include <parallel/train/setup/stages.hpp>

namespace parallel::predict {

/// An exchange of a pass with other ranks along an axis of the mesh.
struct axis_exchange {
  std::string_view axis = {};
  double bytes = 0;       ///< that this rank sends
  bool is_shift = false;  ///< to one other rank, while later operations of the pass run
};

/// What a pass does, in order.
using pass_work = std::vector<std::variant<cluster::operation_work, axis_exchange>>;

/// A pass of a part of the model.
using pass_key = std::pair<train::pass_kind, train::part>;
/// The work of the passes of a model.
using work_by_pass = std::map<pass_key, pass_work>;

namespace detail {

/// The work of an operation that the meta device has seen.
[[nodiscard]] inline cluster::operation_work work_of(meta::observed_operation const& seen) {
  cluster::operation_work out{.name = seen.name, .flops = static_cast<double>(seen.flops)};
  for (auto const& a : seen.arguments)
    out.bytes += static_cast<double>(a.elements * a.element_bytes) *
                 (static_cast<int>(a.reads) + static_cast<int>(a.writes));
  auto const elements = [&](std::size_t i) {
    return static_cast<double>(seen.arguments[i].elements);
  };
  bool const is_weight_gradient = seen.name == "affine_backward_weight";
  if (seen.name == "matmul" || seen.name == "affine" || is_weight_gradient) {
    std::size_t const a = is_weight_gradient ? 2 : 1;
    if (out.flops == 0) return out;
    out.kind = cluster::operation_kind::product;
    out.element_bytes = static_cast<double>(seen.arguments[a].element_bytes);
    out.depth = static_cast<double>(seen.flops / (2 * seen.arguments[0].elements));
    out.rows = elements(a) / out.depth;
    out.columns = elements(0) / out.rows;
  } else if (seen.name.ends_with("attention") || seen.name.ends_with("attention_backward")) {
    bool const backward = seen.name.ends_with("backward");
    std::size_t const query = backward ? 4 : 2, lse = backward ? 8 : 1;
    if (elements(lse) == 0) return out;
    out.kind = backward ? cluster::operation_kind::attention_backward
                        : cluster::operation_kind::attention_forward;
    out.element_bytes = static_cast<double>(seen.arguments[query].element_bytes);
    out.rows = elements(lse);
    out.depth = elements(query) / out.rows;
  }
  return out;
}

/// Notes the work of one pass after another.
class work_recorder final : public meta::access_observer {
 public:
  void operation(meta::observed_operation const& seen) override {
    work_.emplace_back(work_of(seen));
  }
  void traffic(std::string_view axis, std::uint64_t bytes, bool is_shift) override {
    work_.emplace_back(axis_exchange{axis, static_cast<double>(bytes), is_shift});
  }
  void exchange(std::string_view, meta::exchange_kind, meta::memory_access,
                meta::memory_access) override {}
  [[nodiscard]] pass_work take() { return std::exchange(work_, {}); }

 private:
  pass_work work_;
};

}  // namespace detail

/// The work of every pass of the parts in `range` for a microbatch of the shape of `batch` (its
/// views may be null), in training or, with pass::inference, in an evaluation. Cost: up to three
/// runs of the range on the meta device.
template <class Model>
void add_work(work_by_pass& out, Model const& model, train::stage_range range,
              typename Model::microbatch const& batch, pass mode = pass::training) {
  using element = typename Model::element;
  for (bool const halves_apart : {false, true}) {
    meta::stream compute;
    detail::work_recorder recorder;
    arena slot, scratch, second;
    train::stage<Model> const measured(model, range);
    train::stage_activations<Model> saved;
    train::pass_memory<Model> shared(scratch, &second);
    train::statistics<train::loss_type<element>> sums;
    matrix_view<element> const edge(nullptr, {model.rows(batch), model.width()});
    auto const c = train::context_of(model, compute, slot, mode, {}, batch);
    auto const run = [&](pipeline::action_kind computes) {
      for (auto const& p : train::passes_of(range, computes, mode, false)) {
        static_cast<void>(recorder.take());
        measured.run(p, c, shared, batch, {edge, edge}, saved, sums);
        out.try_emplace({p.kind, p.model_part}, recorder.take());
      }
    };
    compute.set_observer(&recorder);
    run(pipeline::action_kind::forward);
    if (mode == pass::inference) return;
    if (halves_apart) {
      run(pipeline::action_kind::backward_input);
      run(pipeline::action_kind::backward_weight);
    } else {
      run(pipeline::action_kind::backward);
    }
  }
}

}  // namespace parallel::predict
