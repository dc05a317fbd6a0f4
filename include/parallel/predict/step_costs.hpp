// step_costs: the seconds of every action of a step on a cluster.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include <parallel/cluster/cluster.hpp>
#include <parallel/predict/pass_time.hpp>
#include <parallel/predict/simulate_step.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/step/step_plan.hpp>
#include <parallel/zero/level.hpp>

namespace parallel::predict {

/// What the actions of a step exchange and move, besides what their plans say.
struct step_sizes {
  zero::unit_position place = {};
  double value_bytes = 2;     ///< of an element of the parameters
  double gradient_bytes = 4;  ///< of an element of the gradients
  double sent_bytes = 4;      ///< of an element of the gradients while it is exchanged
  double boundary_bytes = 0;  ///< of an activation between two stages
};

/// The resources of a rank that its actions use one at a time.
namespace resource {
inline constexpr int device_link = 0;  ///< the connection to devices of the same node
inline constexpr int node_link = 1;    ///< the connection to other nodes
}  // namespace resource

/// The times of the passes of a model.
using pass_times = std::map<pass_key, pass_time>;

class step_costs {
 public:
  /// `memory`: of this rank; all must outlive the costs.
  step_costs(cluster::cluster const& machines, axis_places const& places, step_sizes const& sizes,
             train::step_plan const& plan, train::memory_plan const& memory,
             pass_times const& passes)
      : machines_(machines), places_(places), sizes_(sizes), plan_(plan), passes_(passes) {
    double trained = 0;
    for (auto const& unit : plan.units) trained += elements(unit);
    if (trained == 0) return;
    double const owned = trained / static_cast<double>(sizes.place.shards);
    update_bytes_ = 2 * static_cast<double>(memory.master + memory.optimizer) / owned +
                    sizes.gradient_bytes + sizes.value_bytes;
    offload_bytes_ = 2 * static_cast<double>(memory.offloaded) / owned;
    for (auto const& a : plan.actions) step_bytes_ += moved_bytes(a);
  }

  [[nodiscard]] action_cost operator()(train::action const& a) const {
    using enum train::action_kind;
    switch (a.kind) {
      case pass: return {.seconds = pass_seconds(a), .demand = 1};
      case edge: return edge_cost(a);
      case unshard: return gathered(static_cast<double>(plan_.unit_of(a).values));
      case gather: return gathered(elements(plan_.unit_of(a)));
      case reduce_scatter:
        return exchange(cluster::exchange_kind::reduce_scatter,
                        static_cast<double>(plan_.unit_of(a).gradients) * sizes_.sent_bytes,
                        shards());
      case reduce: return reduced(a);
      case reduce_tied:
        return exchange(cluster::exchange_kind::all_reduce,
                        owned(plan_.unit_of(a)) * sizes_.gradient_bytes,
                        places_.stages(0, plan_.ranks - 1));
      case reduce_scalars:
        return exchange(cluster::exchange_kind::all_reduce, 64, places_.whole_run());
      case prepare:
      case measure: return moved(moved_bytes(a));
      case update: return updated(a);
      default: return {};
    }
  }

  /// Bytes that all actions of a step on gradients and parameters read and write.
  [[nodiscard]] double moved_bytes() const { return step_bytes_; }

  /// Bytes that an action on gradients or parameters reads and writes in the device's memory.
  [[nodiscard]] double moved_bytes(train::action const& a) const {
    using enum train::action_kind;
    if (a.kind != prepare && a.kind != measure && a.kind != update) return 0;
    auto const& unit = plan_.unit_of(a);
    if (a.kind == update) return owned(unit) * update_bytes_;
    bool const is_whole = a.kind == prepare && unit.gradients == 0;
    return (is_whole ? elements(unit) : owned(unit)) * sizes_.gradient_bytes;
  }

 private:
  [[nodiscard]] double elements(train::planned_unit const& unit) const {
    return static_cast<double>(unit.gradient_bytes) / sizes_.gradient_bytes;
  }
  [[nodiscard]] double owned(train::planned_unit const& unit) const {
    return elements(unit) / static_cast<double>(sizes_.place.shards);
  }
  [[nodiscard]] cluster::group_place shards() const {
    return places_.shards(static_cast<int>(sizes_.place.shards));
  }
  [[nodiscard]] cluster::group_place replicas() const {
    return places_.replicas(static_cast<int>(sizes_.place.replicas));
  }

  [[nodiscard]] double pass_seconds(train::action const& a) const {
    if (a.pass == train::pass_kind::join) return 0;
    auto const found = passes_.find({a.pass, a.model_part});
    require(found != passes_.end(), "predict: the time of ", to_string(a.pass), " of part ",
            a.model_part, " is not known");
    return found->second.seconds();
  }
  [[nodiscard]] action_cost edge_cost(train::action const& a) const {
    if (!a.is_message()) return moved(2 * sizes_.boundary_bytes);
    if (pipeline::receives(a.edge)) return {};
    auto const place = places_.stages(plan_.rank, plan_.link_at(a.lane).first);
    auto const kind = cluster::exchange_kind::message;
    return {.seconds = machines_.links.seconds(kind, sizes_.boundary_bytes, place),
            .demand = machines_.links.slowest(place).processor_share,
            .sent = cluster::exchange_bytes(kind, sizes_.boundary_bytes, place)};
  }
  [[nodiscard]] action_cost exchange(cluster::exchange_kind kind, double bytes,
                                     cluster::group_place const& place) const {
    return {.seconds = machines_.links.seconds(kind, bytes, place),
            .resource = place.is_on_one_node() ? resource::device_link : resource::node_link,
            .demand = machines_.links.slowest(place).processor_share,
            .sent = cluster::exchange_bytes(kind, bytes, place)};
  }
  [[nodiscard]] action_cost gathered(double count) const {
    return exchange(cluster::exchange_kind::all_gather, count * sizes_.value_bytes, shards());
  }
  [[nodiscard]] action_cost reduced(train::action const& a) const {
    double scattered = 0, whole = 0;
    for (auto const& use : a.bucket) {
      auto const& unit = plan_.units[static_cast<std::size_t>(use.unit)];
      if (unit.gradients == 0) scattered += elements(unit) * sizes_.sent_bytes;
      whole += owned(unit) * sizes_.sent_bytes;
    }
    auto out = sizes_.place.shards > 1
                   ? exchange(cluster::exchange_kind::reduce_scatter, scattered, shards())
                   : action_cost{.resource = resource::device_link};
    if (sizes_.place.replicas > 1) {
      auto const sum = exchange(cluster::exchange_kind::all_reduce, whole, replicas());
      out.seconds += sum.seconds;
      out.resource = sum.resource;
      out.demand = sum.demand;
      out.sent += sum.sent;
    }
    return out;
  }
  [[nodiscard]] action_cost moved(double bytes) const {
    auto const& device = machines_.device;
    double const seconds_of_byte = step_bytes_ > 0
                                       ? device.moving_seconds("update", step_bytes_) / step_bytes_
                                       : 1 / device.memory_rate;
    return {.seconds = device.gap + bytes * seconds_of_byte, .demand = 1};
  }
  [[nodiscard]] action_cost updated(train::action const& a) const {
    auto out = moved(moved_bytes(a));
    if (offload_bytes_ > 0)
      out.seconds += owned(plan_.unit_of(a)) * offload_bytes_ / machines_.device.host_rate;
    return out;
  }

  cluster::cluster const& machines_;
  axis_places const& places_;
  step_sizes sizes_;
  train::step_plan const& plan_;
  pass_times const& passes_;
  double update_bytes_ = 0;
  double offload_bytes_ = 0;
  double step_bytes_ = 0;
};

}  // namespace parallel::predict
