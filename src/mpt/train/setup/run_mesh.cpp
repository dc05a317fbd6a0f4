#include <mpt/train/setup/run_mesh.hpp>

namespace mpt {

model_groups planned_groups(train_config const& config) {
  auto const& p = config.parallelism;
  model_groups out;
  out.tensor = {decltype(out.tensor.group)::planned(0, p.tensor), p.sequence_parallel};
  out.context = {decltype(out.context.group)::planned(0, p.context), p.context_method};
  return out;
}

}  // namespace mpt
