// pass_time: the seconds of a pass on the devices of a cluster, by what it computes and what it
// waits for.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include <parallel/cluster/cluster.hpp>
#include <parallel/cluster/link_bytes.hpp>
#include <parallel/core/error.hpp>
#include <parallel/mesh/layout.hpp>
#include <parallel/predict/pass_work.hpp>

namespace parallel::predict {

/// The places of the groups of a layout on a cluster: neighbours along the tensor axis are on one
/// node first, then those along context, shard, replicate and pipeline.
class axis_places {
 public:
  axis_places(cluster::cluster const& machines, training_layout const& layout)
      : machines_(machines), layout_(layout) {}

  /// Ranks that differ along one axis.
  template <class Axis>
  [[nodiscard]] cluster::group_place group_along() const {
    return machines_.place(layout_.degree<Axis>(), stride<Axis>());
  }
  /// Ranks with different shards of a unit's memory (zero::unit_position::shards).
  [[nodiscard]] cluster::group_place shards(int count) const {
    return machines_.place(count, count == layout_.degree<axis::shard>() ? stride<axis::shard>()
                                                                         : stride<axis::context>());
  }
  /// Ranks with equal shards and different data (zero::unit_position::replicas).
  [[nodiscard]] cluster::group_place replicas(int count) const {
    return machines_.place(count, stride<axis::replicate>());
  }
  /// Two ranks of the pipeline and those that differ from them along other axes: on one node if
  /// each of them is on the node of the other stage's.
  [[nodiscard]] cluster::group_place stages(int one, int other) const {
    int const node = machines_.devices_on_node, size = stride<axis::pipeline>();
    int const low = std::min(one, other) * size, high = (std::max(one, other) + 1) * size - 1;
    return {
        .ranks = 2, .ranks_on_node = low / node == high / node ? 2 : 1, .devices_on_node = node};
  }
  [[nodiscard]] cluster::group_place whole_run() const {
    return machines_.place(layout_.ranks(), 1);
  }
  [[nodiscard]] cluster::group_place named(std::string_view axis) const {
    if (axis == axis::tensor::name) return group_along<axis::tensor>();
    require(axis == axis::context::name, "predict: passes exchange along tensor and context, not ",
            axis);
    return group_along<axis::context>();
  }

 private:
  /// Distance of two ranks that are neighbours along the axis.
  template <class Axis>
  [[nodiscard]] int stride() const {
    if constexpr (std::is_same_v<Axis, axis::tensor>) return 1;
    if constexpr (std::is_same_v<Axis, axis::context>) return layout_.size<axis::tensor>();
    if constexpr (std::is_same_v<Axis, axis::shard>)
      return layout_.size<axis::context, axis::tensor>();
    if constexpr (std::is_same_v<Axis, axis::replicate>)
      return layout_.size<axis::shard, axis::context, axis::tensor>();
    return layout_.size<axis::replicate, axis::shard, axis::context, axis::tensor>();
  }

  cluster::cluster const& machines_;
  training_layout layout_;
};

/// Seconds of one pass.
struct pass_time {
  double compute = 0;
  double waiting = 0;  ///< for exchanges along tensor and context
  int operations = 0;  ///< that it computes
  std::map<std::string_view, double> by_operation = {};
  std::map<std::string_view, double> by_axis = {};  ///< the part of `waiting` of each axis
  cluster::link_bytes sent = {};                    ///< to other ranks along tensor and context

  [[nodiscard]] double seconds() const { return compute + waiting; }
};

/// The part of the time between two exchanges that the slowest of `ranks` takes longer than they do
/// in the mean. The expected largest of n normal deviates grows as log2(n)^0.8 from that of 2,
/// within 10 % up to 1 024.
[[nodiscard]] inline double straggling(cluster::cluster const& machines, int ranks) {
  return machines.jitter * std::pow(std::log2(ranks), 0.8);
}

/// The time of a pass. The ranks of an exchange wait for the slowest of them. A shift runs beside
/// the operations after it until the next exchange, which it slows down where it demands the
/// device; what is left of it then is waited for.
[[nodiscard]] inline pass_time time_of(pass_work const& work, cluster::cluster const& machines,
                                       axis_places const& places) {
  pass_time out;
  double rest = 0;  // seconds of a shift that are not over yet
  std::string_view rest_axis;
  double share = 0;     // of the device, which the shift demands
  double computed = 0;  // seconds since the last exchange
  auto const wait = [&](std::string_view axis, double seconds) {
    if (seconds <= 0) return;
    out.waiting += seconds;
    out.by_axis[axis] += seconds;
  };
  for (auto const& item : work) {
    if (auto const* const operation = std::get_if<cluster::operation_work>(&item)) {
      double const alone = machines.seconds(*operation);
      double const seconds = alone + share * std::min(alone, std::max(0.0, rest));
      out.compute += seconds;
      ++out.operations;
      out.by_operation[operation->name] += seconds;
      rest -= alone;
      computed += alone;
      continue;
    }
    auto const& exchange = std::get<axis_exchange>(item);
    wait(exchange.axis,
         straggling(machines, places.named(exchange.axis).ranks) * std::exchange(computed, 0.0));
    double const seconds =
        machines.program.axes *
        machines.links.ring_seconds(exchange.bytes, 1, places.named(exchange.axis));
    out.sent += cluster::ring_bytes(exchange.bytes, places.named(exchange.axis));
    if (!exchange.is_shift) {
      wait(exchange.axis, seconds);
      continue;
    }
    wait(rest_axis, rest);
    rest = seconds;
    rest_axis = exchange.axis;
    share = machines.links.slowest(places.named(exchange.axis)).processor_share;
  }
  wait(rest_axis, rest);
  return out;
}

}  // namespace parallel::predict
