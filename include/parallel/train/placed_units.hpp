// placed_units: a model's units on one rank of a mesh: those of the pipeline stages that the rank
// holds, divided as the ZeRO stage says, and what ties them to units of other ranks.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/comm_stream.hpp>
#include <parallel/train/groups.hpp>
#include <parallel/train/hold_units.hpp>
#include <parallel/train/model.hpp>
#include <parallel/train/stages.hpp>
#include <parallel/train/stepper_options.hpp>
#include <parallel/train/tensor_list.hpp>
#include <parallel/zero/unit_set.hpp>

namespace parallel::train {

template <class Model, device Device, communicator Comm>
class placed_units {
 public:
  using element = typename Model::element;
  using stream = typename Device::stream_type;
  using traffic_stream = comm_stream<Device, Comm>;
  using unit_set = zero::unit_set<element, Device, traffic_stream>;
  using entry = typename unit_set::entry;

  /// Allocates on `device` and binds `model`. `optimizers` by group, `key_of` as in
  /// optimizer_groups. Collective over the mesh.
  template <class Optimizers, class KeyOf>
  placed_units(Model& model, Device& device, training_groups<Comm>& groups,
               stepper_options const& how, Optimizers const& optimizers, KeyOf const& key_of)
      : groups_(groups),
        stages_(how.pipeline, groups.pipeline.rank(), groups.pipeline.size(), model.num_blocks()) {
    hold_units(
        units_, device, model, stages_, groups.place(), how, optimizers, key_of,
        [&](auto const& segment) {
          if (segment.key.copies.partial) groups.connect_copies(segment.key.copies.ranks);
        },
        [&](auto& layer, std::vector<part> const& parts) {
          tensors_.template add<element>(layer, key_of);
          if (!stages_.ties(parts)) return;
          bool const some = std::ranges::any_of(parts, [&](part p) { return stages_.holds(p); });
          auto others = groups.pipeline.split(some ? 0 : 1, "pipeline");
          if (some) ties_.emplace_back(&units_.units().back(), std::move(others));
        });
    if (units_.value_window_bytes() > 0) gathers_.emplace(comm_options<Comm>(device));
  }

  [[nodiscard]] stages_of_rank& stages() { return stages_; }
  [[nodiscard]] stages_of_rank const& stages() const { return stages_; }
  [[nodiscard]] std::deque<entry>& units() { return units_.units(); }
  [[nodiscard]] std::deque<entry> const& units() const { return units_.units(); }
  /// The trained tensors of the whole model.
  [[nodiscard]] tensor_list const& tensors() const { return tensors_; }
  [[nodiscard]] bool gradients_divided() const { return units_.gradients_divided(); }
  /// Where values are gathered before use; none unless they are divided.
  [[nodiscard]] std::optional<traffic_stream>& gathers() { return gathers_; }

  template <class F>
  void for_each_use(part p, F&& f) {
    units_.for_each_use(p, f);
  }

  /// Values that stay are gathered again when they are used next.
  void forget_values(stream& compute) {
    if (gathers_) units_.forget_values(compute, *gathers_);
  }
  void use_values(part p, stream& compute) {
    if (gathers_) units_.use_values(p, groups_.axes(), compute, *gathers_);
  }
  void release_values(part p, stream& compute) { units_.release_values(p, compute); }
  void begin_gradients(part p, bool empty, stream& compute) {
    units_.begin_gradients(p, empty, compute);
  }
  void end_gradients(part p, bool first, bool empty, stream& compute, traffic_stream& traffic) {
    units_.end_gradients(p, first, empty, groups_.axes(), compute, traffic);
  }
  void finish_trees(part p, stream& compute) { units_.finish_trees(p, compute); }

  /// Enqueues the sums of the reduced gradients of parameters that other stages use too.
  template <class Requests>
  void sum_ties(stream& compute, traffic_stream& traffic, Requests& requests) {
    for (auto& [unit, others] : ties_) unit->memory.sum_owned(others, compute, traffic, requests);
  }

 private:
  training_groups<Comm>& groups_;
  stages_of_rank stages_;
  tensor_list tensors_;
  unit_set units_;
  std::vector<std::pair<entry*, Comm>> ties_;
  std::optional<traffic_stream> gathers_;
};

/// What the units do around the parts of one microbatch's passes; done(part) after the last.
template <class Units, class Stream, class Traffic, class Done>
struct step_hooks {
  Units& units;
  Stream& compute;
  Traffic& traffic;
  bool first;
  bool empty;
  Done done;

  void before_forward(part p) { units.use_values(p, compute); }
  void after_forward(part p) { units.release_values(p, compute); }
  void before_backward_input(part p) { before_forward(p); }
  void after_backward_input(part p) { after_forward(p); }
  void before_backward_weight(part p) { units.begin_gradients(p, empty, compute); }
  void after_backward_weight(part p) {
    units.end_gradients(p, first, empty, compute, traffic);
    done(p);
  }
  void before_backward(part p) {
    before_forward(p);
    before_backward_weight(p);
  }
  void after_backward(part p) {
    after_forward(p);
    after_backward_weight(p);
  }
};
template <class Units, class Stream, class Traffic, class Done>
step_hooks(Units&, Stream&, Traffic&, bool, bool, Done) -> step_hooks<Units, Stream, Traffic, Done>;

/// The same of a forward pass alone.
template <class Units, class Stream>
struct evaluation_hooks : no_hooks {
  evaluation_hooks(Units& of, Stream& on) : units(of), compute(on) {}
  Units& units;
  Stream& compute;
  void before_forward(part p) { units.use_values(p, compute); }
  void after_forward(part p) { units.release_values(p, compute); }
};

}  // namespace parallel::train
