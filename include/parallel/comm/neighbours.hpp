// connect_neighbours: what comes before messages along a ring of ranks.
#pragma once

#include <parallel/comm/concepts.hpp>

namespace parallel {

/// Ranks of `comm` are going to send to the next and to the one before, the first coming after the
/// last. Collective and blocking; does nothing where messages need no preparation. A
/// communicator of NCCL makes a channel for each of them here, since its operations run one after
/// the other.
template <communicator C>
void connect_neighbours(C& comm) {
  if constexpr (requires { comm.connect_neighbours(); }) comm.connect_neighbours();
}

}  // namespace parallel
