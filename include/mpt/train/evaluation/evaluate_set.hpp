// evaluate_set: the losses of a run's model on an evaluation set, in any layout.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <mpt/model/device_sequences.hpp>
#include <mpt/train/data/run_data.hpp>
#include <mpt/train/setup/run_mesh.hpp>
#include <parallel/train/results/statistics_sum.hpp>

namespace mpt {

/// Evaluates the model of `session` on `set` and returns the sums over all ranks. Collective,
/// between two steps. Each data rank reads its part of the set, as many batches at a time as the
/// pipeline has ranks. `mesh`: a run_mesh; `batch_size`, `length`: of the largest batch.
template <class Session, class Mesh>
[[nodiscard]] train::statistics<double> evaluate_set(evaluation_set const& set, Session& session,
                                                     Mesh& mesh, index batch_size, index length) {
  auto const max_batches = static_cast<std::size_t>(mesh.ranks().pipeline.size());
  auto const next = shared_batches(set, mesh);
  train::statistics_sum<double> sums;
  for (bool has_more = true; has_more;) {
    std::vector<device_sequences<typename Session::device_type>> batches;
    while (has_more && batches.size() < max_batches) {
      auto part = next();
      has_more = part.has_value();
      if (has_more)
        batches.emplace_back(session.device())
            .assign(mesh.local_rows(mesh.equal_rows(*std::move(part), batch_size, length)));
    }
    if (batches.empty()) break;
    std::vector<microbatch> parts;
    for (auto const& part : batches) parts.push_back(part.view({0, part.count()}));
    parts.resize(max_batches);
    session.add_evaluation(parts, sums);
  }
  return session.over_ranks(sums);
}

}  // namespace mpt
