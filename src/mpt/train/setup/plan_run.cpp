#include <mpt/train/setup/plan_run.hpp>

namespace mpt::detail {

bool recomputation_pays(train_config const& config, run_plan const& plan) {
  auto const rows =
      plan.split.microbatch * config.train_loader.max_seq_len / config.parallelism.context;
  return plan.is_microbatch_automatic && plan.split.microbatch < plan.split.device_batch &&
         rows < 2 * config.model.d_model;
}

}  // namespace mpt::detail
