// evaluate_set: the losses of a run's model on an evaluation set, in any layout.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include <mpt/train/device_sequences.hpp>
#include <mpt/train/run_data.hpp>
#include <mpt/train/run_mesh.hpp>
#include <parallel/train/statistics_sum.hpp>

namespace mpt {

/// The sums over all ranks. Collective, between two steps of `step`; each data rank reads its part
/// of the set, as many batches at a time as the pipeline has ranks. `mesh`: a run_mesh; `memory`:
/// as for a step.
template <class Device, class Mesh, class Stepper>
[[nodiscard]] train::statistics<double> evaluate_set(evaluation_set const& set, Device& device,
                                                     Mesh& mesh, Stepper& step,
                                                     typename Stepper::stream& compute,
                                                     typename Stepper::exchange_stream& exchanges,
                                                     arena& memory) {
  auto const at_once = static_cast<std::size_t>(mesh.ranks().pipeline.size());
  auto const next = shared_batches(set, mesh);
  train::statistics_sum<double> sums;
  for (bool more = true; more;) {
    std::vector<device_sequences<Device>> held;
    while (more && held.size() < at_once) {
      auto part = next();
      more = part.has_value();
      if (more) held.emplace_back(device).assign(mesh.local_rows(*std::move(part)));
    }
    if (held.empty()) break;
    std::vector<microbatch> parts;
    for (auto const& part : held) parts.push_back(part.view({0, part.count()}));
    parts.resize(at_once);
    step.add_evaluation(compute, memory, std::span<microbatch const>(parts), sums);
  }
  return step.over_ranks(exchanges, sums);
}

}  // namespace mpt
