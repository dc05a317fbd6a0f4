#include <mpt/train/setup/plan_run.hpp>

namespace mpt::detail {

bool recomputation_pays(model_config const& model, data_config const& data,
                        execution_config const& execution, run_plan const& plan) {
  auto const rows =
      plan.split.microbatch * data.train_loader.max_seq_len / execution.parallelism.context;
  return plan.is_microbatch_automatic && plan.split.microbatch < plan.split.device_batch &&
         rows < 2 * model.d_model;
}

}  // namespace mpt::detail
