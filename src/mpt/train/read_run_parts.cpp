#include <mpt/train/read_run_parts.hpp>

#include <memory>
#include <utility>

#include <mpt/callbacks/generate_callback.hpp>
#include <mpt/callbacks/hf_checkpointer.hpp>
#include <mpt/train/checkpoint/open_pretrained.hpp>
#include <mpt/train/data/configured_data.hpp>
#include <mpt/train/evaluation/task_evaluation.hpp>
#include <mpt/train/evaluation/task_set.hpp>

namespace mpt {

run_parts read_run_parts(train_config const& config, run_examples examples, remote_sets sets) {
  auto const ratio = detail::automatic_packing_ratio(config.data.train_loader, examples.train.get(),
                                                     config.data.global_train_batch_size);
  run_parts out{
      .data = std::make_shared<configured_data const>(std::move(examples), std::move(sets)),
      .open_weights = open_pretrained,
      .adapter_base = config.run.dry_run  // whose model may have no weights here
                          ? hf::adapted_model()
                          : adapter_base_of(config.model, config.checkpoint),
      .packing_ratio = ratio};
  if (!config.evaluation.icl.tasks.empty())
    out.tasks = std::make_shared<task_evaluation const>(
        read_task_set(config.model, config.data, config.evaluation));
  auto const& callbacks = config.callbacks;
  if (callbacks.generate)
    out.prompts = std::make_shared<sample_prompts const>(
        read_sample_prompts(config.model, config.data, config.callbacks));
  if (callbacks.hf_checkpointer)
    out.exports = std::make_shared<hf_exports const>(
        hf_exports_of(config.model, config.data, config.callbacks, out.adapter_base));
  return out;
}

}  // namespace mpt
