// network: the links of a cluster, and the time of an exchange among a group of its ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <parallel/cluster/rate_curve.hpp>
#include <parallel/core/error.hpp>

namespace parallel::cluster {

/// One direction of a device's connection.
struct link {
  double latency = 0;  ///< seconds of a message without content
  double rate = 0;     ///< bytes a second that a device sends while all of them send
  /// Likewise of all_reduce, where switches compute the sums; 0: as `rate`, by the devices.
  double sum_rate = 0;
  /// The share of the rate that an exchange reaches, by the bytes that each rank sends in it;
  /// empty: all of it.
  rate_curve efficiency = {};
  /// The share of the device, below 1, that an exchange over this link takes while it runs:
  /// computations beside it are slowed down.
  double processor_share = 0;

  [[nodiscard]] double seconds(double bytes) const {
    if (bytes <= 0) return 0;
    return bytes / (rate * (efficiency.empty() ? 1 : efficiency.rate(bytes)));
  }
};

/// Exchanges among the ranks of a group.
enum class exchange_kind : std::uint8_t {
  all_gather,
  reduce_scatter,
  all_reduce,
  all_to_all,
  message,  // from one rank to another, while every rank does so
};

/// Where the ranks of a group are.
struct group_place {
  int ranks = 1;
  int ranks_on_node = 1;  ///< of this group; all nodes have equally many
  int devices_on_node = 1;

  [[nodiscard]] int nodes() const { return ranks / ranks_on_node; }
  [[nodiscard]] bool is_on_one_node() const { return ranks == ranks_on_node; }
};

/// The place of groups of `ranks` that are `stride` ranks apart, where ranks are numbered node by
/// node with `devices_on_node` each.
[[nodiscard]] constexpr group_place place_of_group(int ranks, int stride, int devices_on_node) {
  int const fits = std::max(1, devices_on_node / std::max(1, stride));
  int on_node = std::min(ranks, fits);
  while (ranks % on_node != 0) --on_node;
  return {ranks, on_node, devices_on_node};
}

struct network {
  link device_link = {};  ///< of a device to those of its node
  link node_link = {};  ///< to other nodes; its rate is a device's share of its node's connections
  double oversubscription = 1;  ///< factor by which the rate falls when all nodes exchange at once

  /// The slowest link of a group.
  [[nodiscard]] link const& slowest(group_place const& place) const {
    return place.is_on_one_node() ? device_link : node_link;
  }

  /// Seconds of an exchange of `bytes` in all: what a rank has afterwards of all_gather, before
  /// reduce_scatter, and on both sides of all_reduce and all_to_all; of a message its content.
  ///
  /// Rings: a rank sends (n - 1) / n of the bytes, twice for all_reduce (Patarasuk and Yuan, 2009).
  /// Every device of a node sends through its own connection, so that a group with m ranks on a
  /// node has m connections for one ring of its nodes. A message's latency counts once for every
  /// step of the ring; all_reduce takes two trees where their levels are fewer steps, as in NCCL
  /// (src/graph/tuning.cc), whose all_gather and reduce_scatter have no trees.
  [[nodiscard]] double seconds(exchange_kind kind, double bytes, group_place const& place) const {
    if (kind == exchange_kind::message) return message_seconds(bytes, place);
    double const n = place.ranks;
    double const rounds = kind == exchange_kind::all_reduce ? 2 : 1;
    double const sent = rounds * bytes * (n - 1) / n;
    double seconds = ring_seconds(sent, rounds, place);
    if (kind == exchange_kind::all_reduce && place.is_on_one_node() && device_link.sum_rate > 0)
      seconds -= device_link.seconds(sent) * (1 - device_link.rate / device_link.sum_rate);
    if (kind == exchange_kind::all_gather || kind == exchange_kind::reduce_scatter)
      seconds += ring_latency(place) - tree_latency(place);
    if (kind != exchange_kind::all_to_all || place.is_on_one_node()) return seconds;
    double const leaving = bytes * (n - place.ranks_on_node) / n;
    return std::max(seconds, node_link.seconds(leaving) * oversubscription);
  }

  /// Seconds of an exchange in which every rank sends `sent` bytes, in this many rounds of a ring.
  [[nodiscard]] double ring_seconds(double sent, double rounds, group_place const& place) const {
    if (place.ranks == 1 || sent <= 0) return 0;
    double const m = place.ranks_on_node;
    double const latencies = rounds * tree_latency(place);
    double const device_seconds = m > 1 ? device_link.seconds(sent) : 0;
    if (place.is_on_one_node()) return latencies + device_seconds;
    return latencies + std::max(device_seconds, node_link.seconds(sent / m) * oversubscription);
  }

 private:
  /// The latency of one ring through all ranks.
  [[nodiscard]] double ring_latency(group_place const& place) const {
    return (place.ranks - place.nodes()) * device_link.latency +
           (place.nodes() - 1) * node_link.latency;
  }
  /// The latency of two trees, of the devices of a node and of nodes, or of rings that are shorter.
  [[nodiscard]] double tree_latency(group_place const& place) const {
    auto const steps = [](double n) { return std::min(n - 1, 2 * std::ceil(std::log2(n))); };
    return steps(place.ranks_on_node) * device_link.latency +
           steps(place.nodes()) * node_link.latency;
  }

  [[nodiscard]] double message_seconds(double bytes, group_place const& place) const {
    link const& used = slowest(place);
    return used.latency + used.seconds(bytes) * (place.is_on_one_node() ? 1 : oversubscription);
  }
};

}  // namespace parallel::cluster
