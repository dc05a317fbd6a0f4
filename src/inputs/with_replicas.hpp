// with_replicas: makes mpt::replicas of the ranks that `launch` started, for a program that runs a
// model without training it. On several GPUs, ranks that hold slices of one model exchange by NCCL.
#pragma once

#include <mpt/model/replicas.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/core/patience.hpp>

#include <launch/launch.hpp>
#include "exchanges.hpp"

namespace apps {

/// Calls f(mpt::replicas) for replicas of `tensor` ranks. Collective.
template <class Device, class F>
decltype(auto) with_replicas(parallel::any_communicator& ranks, Device& device, int tensor,
                             parallel::shared_deadline const& deadline,
                             placement const& rank_placement, F&& f) {
  auto const call = [&]<class Comm>(Comm& exchanges) {
    mpt::replicas<Device, Comm> replicas(ranks, exchanges, device, tensor);
    return f(replicas);
  };
  if (tensor == 1) return call(ranks);
  return with_exchanges(ranks, device, deadline, rank_placement.recorder, call);
}

}  // namespace apps
