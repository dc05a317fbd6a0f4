// link_bytes: what one rank sends over the links of a cluster.
#pragma once

#include <parallel/cluster/network.hpp>

namespace parallel::cluster {

struct link_bytes {
  double in_node = 0;   ///< to devices of its node
  double to_nodes = 0;  ///< to other nodes

  link_bytes& operator+=(link_bytes const& other) {
    in_node += other.in_node;
    to_nodes += other.to_nodes;
    return *this;
  }
};

/// The bytes that a rank sends over each link in an exchange in which it sends `sent` bytes, as
/// network::ring_seconds has them: of m ranks on a node each sends its part of the ring of nodes.
[[nodiscard]] constexpr link_bytes ring_bytes(double sent, group_place const& place) {
  if (place.ranks == 1) return {};
  double const m = place.ranks_on_node;
  return {m > 1 ? sent : 0, place.is_on_one_node() ? 0 : sent / m};
}

/// The bytes that a rank sends over each link in an exchange of `bytes`, as network::seconds has
/// them.
[[nodiscard]] constexpr link_bytes exchange_bytes(exchange_kind kind, double bytes,
                                                  group_place const& place) {
  if (kind == exchange_kind::message)
    return place.is_on_one_node() ? link_bytes{bytes, 0} : link_bytes{0, bytes};
  double const n = place.ranks;
  double const rounds = kind == exchange_kind::all_reduce ? 2 : 1;
  auto out = ring_bytes(rounds * bytes * (n - 1) / n, place);
  if (kind == exchange_kind::all_to_all && !place.is_on_one_node())
    out.to_nodes = bytes * (n - place.ranks_on_node) / n;
  return out;
}

}  // namespace parallel::cluster
