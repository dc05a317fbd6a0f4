// placed_units: a model's units on one rank of a mesh: those of the pipeline stages that the rank
// holds, divided according to the ZeRO stage, with the groups that tie them to units of other
// ranks.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/coloring.hpp>
#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/registered_memory.hpp>
#include <parallel/train/model.hpp>
#include <parallel/train/process_groups.hpp>
#include <parallel/train/results/tensor_list.hpp>
#include <parallel/train/setup/declarations.hpp>
#include <parallel/train/setup/hold_units.hpp>
#include <parallel/train/setup/stepper_setup.hpp>
#include <parallel/train/step/step_plans.hpp>
#include <parallel/train/stepper_options.hpp>
#include <parallel/zero/register_units.hpp>
#include <parallel/zero/share_filled.hpp>
#include <parallel/zero/unit_set.hpp>

namespace parallel::train {

template <class Model, class Device, class Comm>
class placed_units {
 public:
  using element = typename Model::element;
  using stream = typename Device::stream_type;
  using exchange_stream = comm_stream<Device, Comm>;
  using unit_set = zero::unit_set<element, Device, exchange_stream>;
  using entry = typename unit_set::entry;

  /// Allocates the units on `device` and binds `model` to them. `optimizers` by group, `key_of` as
  /// in optimizer_groups. Collective over the mesh.
  template <class Optimizers, class KeyOf>
  placed_units(Model& model, Device& device, process_groups<Comm>& groups,
               stepper_options const& options, Optimizers const& optimizers, KeyOf const& key_of)
      : plans_(options, groups.place(), groups.pipeline.rank(), groups.pipeline.size(),
               model.num_blocks()),
        trains_(trains_any(model, key_of)),
        parameters_(parameters_of(model)) {
    require((groups.level() == zero::level::none) == (options.level == zero::level::none),
            "stepper: the process groups were made for ZeRO level ",
            static_cast<int>(groups.level()), ", but the options say level ",
            static_cast<int>(options.level), "; give both the same");
    check_declarations(model, groups.tensor.size());
    hold_units(
        units_, device, model, stages(), groups.place(), options, optimizers, key_of,
        [&](auto const& segment) {
          if (segment.key.replication.partial)
            groups.connect_replicas(segment.key.replication.ranks);
          auto const group = static_cast<std::size_t>(segment.key.group);
          if (segment.key.trainable && takes_whole_tensors(optimizers[group]))
            groups.connect_replicas(groups.tensor.size());  // the slices of a tensor
        },
        [&](std::string const& name, auto& layer, std::vector<part> const& parts,
            std::vector<parameter_base<element>*> const& uses) {
          tensors_.template add<element>(layer, key_of);
          plans_.template add<element>(name, layer, parts, uses, optimizers, key_of);
          if (!stages().ties(parts)) return;
          auto const holds = [&](int rank) {
            return std::ranges::any_of(parts, [&](part p) { return stages().owner(p) == rank; });
          };
          auto tied_ranks = groups.pipeline.split(
              coloring([&](int rank) { return holds(rank) ? 0 : 1 + rank; }), "pipeline");
          if (holds(groups.pipeline.rank()))
            ties_.emplace_back(&units_.units().back(), std::move(tied_ranks));
        });
    bool const gathers_before_use = options.gather_before_use &&
                                    std::ranges::any_of(plans_.units(), &planned_unit::is_gathered);
    evaluates_jointly_ =
        units_.value_buffer_bytes() > 0 || gathers_before_use || groups.pipeline.size() > 1;
    if (evaluates_jointly_ || groups.tensor.size() > 1 || groups.context.size() > 1)
      gathers_.emplace(comm_options<Comm>(device));
    registered_ =
        zero::register_units(units_, [&](int expert_ranks) { return groups.axes(expert_ranks); });
  }

  [[nodiscard]] stages_of_rank& stages() { return plans_.stages(); }
  [[nodiscard]] stages_of_rank const& stages() const { return plans_.stages(); }
  [[nodiscard]] std::deque<entry>& units() { return units_.units(); }
  [[nodiscard]] std::deque<entry> const& units() const { return units_.units(); }
  /// The trained tensors of the whole model.
  [[nodiscard]] tensor_list const& tensors() const { return tensors_; }
  /// The stream on which values are gathered before use; it exists too where ranks evaluate
  /// together.
  [[nodiscard]] std::optional<exchange_stream>& gathers() { return gathers_; }
  /// Whether all ranks evaluate together: because they gather values, or along a pipeline.
  [[nodiscard]] bool evaluates_jointly() const { return evaluates_jointly_; }

  /// The plans of steps with these units.
  [[nodiscard]] step_plans& plans() { return plans_; }
  [[nodiscard]] step_plans const& plans() const { return plans_; }
  /// The units and parts under the numbers by which a plan addresses them.
  [[nodiscard]] unit_set& set() { return units_; }

  /// Gathers the values of all units that are held whole. Blocks.
  void gather(process_groups<Comm>& groups) {
    wait_for([&](auto const& unit, auto& requests) {
      unit.gather(groups.axes(unit.layout().expert_ranks()), *gathers_, requests);
    });
  }
  /// Completes units of which all ranks have filled parts; `states`: the optimizer's states too.
  /// Blocks.
  void share_filled(process_groups<Comm>& groups, exchange_stream& exchanges, bool states) {
    wait_for([&](auto& unit, auto& requests) {
      zero::share_filled(unit, groups.axes(unit.layout().expert_ranks()), exchanges, states,
                         requests);
    });
  }

  /// Throws unless the model has the same parameters at the same addresses as when it was placed.
  void require_in_place(Model& model) const {
    require(parameters_of(model) == parameters_,
            "the model's parameters are not where they were when the stepper was made of it: the "
            "model or its layers were moved or replaced since; a stepper refers to them, so make "
            "the model first, keep it where it is (its blocks in a std::deque, say), and make "
            "another stepper for another model");
  }

  /// Throws unless the model's parameters are in the memory that this stepper gave them, as far as
  /// they stay there.
  void require_bound() const {
    for (auto const& unit_entry : units()) {
      if (unit_entry.memory.parameters_sharded()) continue;
      auto const& segments = unit_entry.memory.layout().segments();
      for (std::size_t s = 0; s < segments.size(); ++s)
        for (auto const& [parameter, offset] : segments[s].parameters)
          require(parameter->data == unit_entry.memory.segments()[s].values.data() + offset,
                  "unit \"", unit_entry.memory.layout().name(), "\": parameter \"", parameter->name,
                  "\" is not where this stepper has put it: it was moved, or another one, "
                  "or train::weights, was made of the same model; give each its own model");
    }
  }
  /// Throws unless some parameter of the model is trained, on any rank.
  void require_trained() const {
    require(trains_,
            "every parameter of the model is frozen: a step would train nothing; let "
            "optimizer_groups::key_of say of some that they are trainable");
  }

  /// Enqueues the sum of a unit's reduced gradients over the stages that use the unit too.
  template <class Requests>
  void reduce_tied(entry const& unit, exchange_stream& exchanges, Requests& requests) {
    for (auto& [tied, tied_ranks] : ties_)
      if (tied == &unit) tied->memory.sum_owned(tied_ranks, exchanges, requests);
  }

 private:
  template <class Enqueue>
  void wait_for(Enqueue const& enqueue) {
    std::vector<typename Comm::request_type> requests;
    for (auto& unit : units()) enqueue(unit.memory, requests);
    for (auto& request : requests) request.wait();
  }

  using addresses = std::vector<void const*>;

  [[nodiscard]] static addresses parameters_of(Model& model) {
    addresses out;
    model.visit_units([&](std::string const&, auto& layer, auto const&,
                          std::vector<parameter_base<element>*> const& uses) {
      visit_parameters_of(layer, [&](parameter_base<element>& p) { out.push_back(&p); });
      out.insert(out.end(), uses.begin(), uses.end());
    });
    return out;
  }

  step_plans plans_;
  bool trains_;
  addresses parameters_;
  tensor_list tensors_;
  unit_set units_;
  std::vector<std::pair<entry*, Comm>> ties_;
  bool evaluates_jointly_ = false;
  std::optional<exchange_stream> gathers_;
  std::vector<registered_memory> registered_;
};

}  // namespace parallel::train
