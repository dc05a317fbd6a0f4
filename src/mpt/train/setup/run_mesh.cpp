#include <mpt/train/setup/run_mesh.hpp>

namespace mpt {

model_groups planned_groups(parallelism_config const& parallelism) {
  auto const& p = parallelism;
  model_groups out;
  out.tensor = {decltype(out.tensor.group)::planned(0, p.tensor), p.sequence_parallel};
  out.context = {decltype(out.context.group)::planned(0, p.context), p.context_method};
  out.experts = decltype(out.experts)::planned(0, p.expert);
  out.expert_buffer = p.expert_buffer;
  return out;
}

}  // namespace mpt
