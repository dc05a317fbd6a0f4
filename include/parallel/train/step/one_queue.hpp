// one_queue: reorders the lists of a step for a device that has one queue for all streams of a
// rank, so that no action begins before everything that was enqueued before it is complete.
//
// CUDA is such a device with CUDA_DEVICE_MAX_CONNECTIONS=1, which keeps kernels in the order in
// which they were enqueued. A receive that is enqueued as early as possible then keeps out the
// sends for which the other rank waits. The remedy is the order in which a simulation of all ranks
// begins the actions: every exchange has the same position in one sequence on all ranks that take
// part, so the first exchange that is not complete can always begin.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include <parallel/train/step/verify_step.hpp>

namespace parallel::train {

/// Reorders the actions of the plans of all ranks into the order in which they begin with the
/// durations that `cost` gives; dependencies, and the order on every stream, stay. The plans must
/// have been proved. Cost: that of the proof, and of sorting.
template <class = void>
void order_for_one_queue(std::span<step_plan> plans, step_costs cost = {}) {
  detail::step_rendezvous run(plans, cost, step_queues::one_pass);
  require(run.run().good(), "order_for_one_queue: the plans of the step cannot run");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    auto const& begins = run.begins(i);
    auto& actions = plans[i].actions;
    std::vector<int> order(actions.size()), new_number(actions.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int k) { return begins[static_cast<std::size_t>(k)]; });
    std::vector<action> ordered;
    for (int const k : order) {
      new_number[static_cast<std::size_t>(k)] = static_cast<int>(ordered.size());
      ordered.push_back(std::move(actions[static_cast<std::size_t>(k)]));
    }
    for (auto& a : ordered)
      for (int& other : a.dependencies) other = new_number[static_cast<std::size_t>(other)];
    actions = std::move(ordered);
  }
}

}  // namespace parallel::train
