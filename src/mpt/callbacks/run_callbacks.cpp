#include <mpt/callbacks/run_callbacks.hpp>

#include <optional>
#include <utility>

#include <mpt/vocabulary.hpp>

namespace mpt {

run_callbacks make_callbacks(train_config const& config, training_clock const& clock) {
  auto const& c = config.callbacks;
  std::optional<optimizer_monitor> monitor;
  if (c.optimizer_monitor_interval > 0) monitor.emplace(c.optimizer_monitor_interval);
  std::optional<routing_monitor> routing;
  if (auto const& experts = config.model.experts)
    routing.emplace(experts->count, experts->top_k, config.execution.parallelism.expert,
                    c.tokens_per_expert);
  require(!c.tokens_per_expert || config.model.experts,
          "callbacks.mbmoe_tok_per_expert: the model has no experts; leave it out, or set "
          "model.ffn_config.ffn_type");
  std::optional<kill_loss_spike> spike;
  if (c.kill_loss_spike) spike.emplace(*c.kill_loss_spike, total_batches(clock));
  std::optional<early_stopper> stopper;
  if (c.early_stopper) {
    stopper.emplace(*c.early_stopper);
    bool is_known = c.early_stopper->dataloader_label == "train";
    for (auto const& loader : config.data.eval_loaders)
      is_known = is_known || stopper->watches(loader.label);
    require(is_known, "callbacks.early_stopper.dataloader_label: '",
            c.early_stopper->dataloader_label,
            "' is neither train nor an evaluation set; use train, eval, or a label of eval_loader");
  }
  return run_callbacks(nan_monitor{}, std::move(monitor), std::move(routing), std::move(spike),
                       std::move(stopper));
}

}  // namespace mpt
