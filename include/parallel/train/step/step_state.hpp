// step_state: what the steps of one rank compute with, and what a step leaves behind: units,
// results, limits, outcome and the observer of its passes.
#pragma once

#include <utility>
#include <vector>

#include <parallel/comm/comm_stream.hpp>
#include <parallel/train/model.hpp>
#include <parallel/train/optimizer_groups.hpp>
#include <parallel/train/process_groups.hpp>
#include <parallel/train/results/shared_results.hpp>
#include <parallel/train/setup/placed_units.hpp>
#include <parallel/train/setup/stepper_setup.hpp>
#include <parallel/train/step/step_plan.hpp>
#include <parallel/train/step/step_request.hpp>
#include <parallel/train/step_limits.hpp>
#include <parallel/train/stepper_options.hpp>

namespace parallel::train {

/// Watches the passes of a rank, as corruption_check does.
template <class Stream, class ExchangeStream>
class step_observer {
 public:
  /// Called after a pass was enqueued on `compute`.
  virtual void observe_pass(action const& pass, Stream& compute) = 0;
  /// Called before the update, which is left out where it returns false. Collective; blocks.
  [[nodiscard]] virtual bool agree(Stream& compute, ExchangeStream& exchanges) = 0;

 protected:
  ~step_observer() = default;
};

template <class Model, class Device, class Comm, class Optimizer>
struct step_state {
  using model_type = Model;
  using element = typename Model::element;
  using requests_type = std::vector<typename Comm::request_type>;
  using gradient_type = accumulate_t<element>;
  using stream = typename Device::stream_type;
  using exchange_stream = comm_stream<Device, Comm>;
  using unit_entry = typename placed_units<Model, Device, Comm>::entry;

  step_state(Model& model, Device& device_of_units, process_groups<Comm>& ranks,
             optimizer_groups<Optimizer> by_group, stepper_options chosen)
      : device(device_of_units),
        groups(ranks),
        optimizers(std::move(by_group.optimizers)),
        options(checked_setup(model, groups.world(), optimizers, by_group.key_of,
                              on_device<Device>(std::move(chosen)))),
        placed(model, device, groups, options, optimizers, by_group.key_of),
        results(device, by_tree(), record_size_of(model)) {}
  step_state(step_state&&) = delete;

  /// Whether sums have the canonical order.
  [[nodiscard]] bool by_tree() const {
    return options.order == zero::reduction_order::canonical_tree;
  }

  Device& device;
  process_groups<Comm>& groups;
  std::vector<Optimizer> optimizers;  ///< by group
  stepper_options options;
  placed_units<Model, Device, Comm> placed;
  shared_results<element> results;
  step_limits limits;
  step_outcome outcome = step_outcome::updated;             ///< of the step that was begun last
  step_observer<stream, exchange_stream>* check = nullptr;  ///< of the current passes; null: none
};

}  // namespace parallel::train
