// run_parts: everything that a run needs besides its model and its ranks, each behind an interface,
// so that a trainer is compiled without knowing file formats, tokenizers or tasks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <mpt/callbacks/generate_callback.hpp>
#include <mpt/callbacks/hf_checkpointer.hpp>
#include <mpt/config/train.hpp>
#include <mpt/hf/adapted_model.hpp>
#include <mpt/log/tracker.hpp>
#include <mpt/train/checkpoint/weight_source.hpp>
#include <mpt/train/data/run_data.hpp>
#include <mpt/train/evaluation/run_tasks.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// The parts of a run. The ranks of a process share them and call them at the same time.
/// read_run_parts makes the parts that a configuration asks for.
struct run_parts {
  std::shared_ptr<run_data const> data;                ///< never null in a run
  std::shared_ptr<run_tasks const> tasks = {};         ///< set if the run has icl_tasks
  std::shared_ptr<sample_prompts const> prompts = {};  ///< set if the run has a generate_callback
  std::shared_ptr<hf_exports const> exports = {};      ///< set if the run has an hf_checkpointer
  weight_opener open_weights = {};  ///< opens pretrained weights that are not a checkpoint of a run
  hf::adapted_model adapter_base = {};  ///< the model whose adapters the run trains, if it is known
  tracker_opener open_trackers = {};    ///< set if the run's metrics go to trackers
  /// The packing ratio found for train_loader; empty unless its packing_ratio is "auto".
  std::optional<double> packing_ratio = {};
};

/// Returns `parts`; throws if a part that the configuration asks for is missing.
[[nodiscard]] run_parts const& checked_parts(icl_config const& icl,
                                             callbacks_config const& callbacks,
                                             loggers_config const& loggers, run_parts const& parts);

}  // namespace mpt
