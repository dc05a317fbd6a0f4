// one_queue: lists of a step that run where a device has one queue for all streams of a rank, so
// that nothing begins before everything that was enqueued before it is over.
//
// CUDA is such a device with CUDA_DEVICE_MAX_CONNECTIONS=1, which keeps kernels in the order in
// which they were enqueued. A receive that is enqueued as early as it may be then keeps out the
// sends for which the other rank waits. In the order in which a run of all ranks begins things,
// every exchange stands at the same place of one sequence on all ranks that take part, and so the
// first that is not over can always begin.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include <parallel/train/verify_step.hpp>

namespace parallel::train {

/// Enqueues what the plans of all ranks do in the order in which it begins when everything takes as
/// long as `cost` says; what waits for what, and the order on every stream, stay. The plans must
/// have been proved. Cost: that of the proof, and of sorting.
inline void order_for_one_queue(std::span<step_plan> plans, step_costs cost = {}) {
  detail::step_rendezvous run(plans, cost, step_queues::one_pass);
  require(run.run().good(), "order_for_one_queue: the plans of the step cannot run");
  for (std::size_t i = 0; i < plans.size(); ++i) {
    auto const& begins = run.begins(i);
    auto& actions = plans[i].actions;
    std::vector<int> order(actions.size()), place(actions.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int k) { return begins[static_cast<std::size_t>(k)]; });
    std::vector<action> ordered;
    for (int const k : order) {
      place[static_cast<std::size_t>(k)] = static_cast<int>(ordered.size());
      ordered.push_back(std::move(actions[static_cast<std::size_t>(k)]));
    }
    for (auto& a : ordered)
      for (int& other : a.after) other = place[static_cast<std::size_t>(other)];
    actions = std::move(ordered);
  }
}

}  // namespace parallel::train
