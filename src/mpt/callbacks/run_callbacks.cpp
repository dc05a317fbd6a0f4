#include <mpt/callbacks/run_callbacks.hpp>

#include <optional>
#include <utility>

#include <mpt/vocabulary.hpp>

namespace mpt {

run_callbacks make_callbacks(callbacks_config const& callbacks, data_config const& data,
                             training_clock const& clock) {
  auto const& c = callbacks;
  std::optional<optimizer_monitor> monitor;
  if (c.optimizer_monitor_interval > 0) monitor.emplace(c.optimizer_monitor_interval);
  std::optional<kill_loss_spike> spike;
  if (c.kill_loss_spike) spike.emplace(*c.kill_loss_spike, total_batches(clock));
  std::optional<early_stopper> stopper;
  if (c.early_stopper) {
    stopper.emplace(*c.early_stopper);
    bool is_known = c.early_stopper->dataloader_label == "train";
    for (auto const& loader : data.eval_loaders)
      is_known = is_known || stopper->watches(loader.label);
    require(is_known, "callbacks.early_stopper.dataloader_label: '",
            c.early_stopper->dataloader_label,
            "' is neither train nor an evaluation set; use train, eval, or a label of eval_loader");
  }
  return run_callbacks(nan_monitor{}, std::move(monitor), std::move(spike), std::move(stopper));
}

}  // namespace mpt
