// connect_neighbours: prepares messages along a ring of ranks.
#pragma once

#include <parallel/comm/concepts.hpp>

namespace parallel {

/// Prepares `comm` for sends to the next rank and to the previous one, where the first rank follows
/// the last. Collective and blocking; does nothing where messages need no preparation. An NCCL
/// communicator makes a channel for each direction, since its operations run one after the other.
template <communicator C>
void connect_neighbours(C& comm) {
  if constexpr (requires { comm.connect_neighbours(); }) comm.connect_neighbours();
}

}  // namespace parallel
