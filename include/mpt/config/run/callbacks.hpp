// `callbacks`: the parts that observe a run or stop it, under LLM Foundry's names.
//
// Names and defaults are those of Composer and LLM Foundry. Two of their mistakes are corrected:
// early_stopper treats a cross entropy as a metric that should fall, and kill_loss_spike with a
// configured window_size continues its checks after the first window.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mpt/yaml/reader.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

/// Stops when a metric has not improved for a while.
struct early_stopper_config {
  std::string monitor;           ///< LanguageCrossEntropy, LanguagePerplexity or TokenAccuracy
  std::string dataloader_label;  ///< train, eval, or the label of an evaluation set
  bool greater_is_better = false;
  double min_delta = 0;
  time_value patience{1, time_unit::epoch};  ///< in ep or ba

  friend bool operator==(early_stopper_config const&, early_stopper_config const&) = default;
};

/// Logs a message, or ends the run, when the loss jumps or stays high.
struct loss_spike_config {
  bool log_only = true;
  std::int64_t patience = 4;      ///< outliers in a row that are tolerated
  double outlier_multiplier = 2;  ///< a loss above this multiple of the window's mean is an outlier
  std::optional<std::int64_t> window_size;  ///< batches; none: 100, or a twentieth of the run
  double loss_cap = 10;

  friend bool operator==(loss_spike_config const&, loss_spike_config const&) = default;
};

/// Continues prompts at an interval.
struct generate_config {
  std::vector<std::string> prompts;
  time_value interval{1, time_unit::epoch};
  std::int64_t max_new_tokens = 20;
  double temperature = 0;  ///< 0: greedy
  std::int64_t top_k = 0;
  double top_p = 1;

  friend bool operator==(generate_config const&, generate_config const&) = default;
};

/// Writes a Hugging Face folder at an interval.
struct hf_checkpointer_config {
  std::string save_folder;  ///< the parent of the written folders; {run_name} is filled in
  time_value save_interval{1, time_unit::epoch};
  std::string folder_name = "ba{batch}";  ///< {batch} and {epoch} are filled in
  std::string precision = "float32";      ///< or bfloat16, float16
  bool overwrite = true;                  ///< whether an existing folder is replaced

  friend bool operator==(hf_checkpointer_config const&, hf_checkpointer_config const&) = default;
};

/// `mbmoe_tok_per_expert`: LLM Foundry's numbers of the tokens of experts.
struct tokens_per_expert_config {
  std::int64_t interval = 10;  ///< batches
  bool every_layer = false;
  bool normalize = true;  ///< shares of the batch's tokens, or else their numbers

  friend bool operator==(tokens_per_expert_config const&,
                         tokens_per_expert_config const&) = default;
};

/// The unit in which a callback logs times.
struct logged_time_unit {
  std::string name = "hours";
  double seconds = 3600;

  friend bool operator==(logged_time_unit const&, logged_time_unit const&) = default;
};

/// The callbacks of a run, each where the configuration names it.
struct callbacks_config {
  std::optional<early_stopper_config> early_stopper;
  std::optional<loss_spike_config> kill_loss_spike;
  std::optional<generate_config> generate;
  std::optional<hf_checkpointer_config> hf_checkpointer;
  std::int64_t optimizer_monitor_interval = 0;                ///< batches; 0: off
  std::optional<tokens_per_expert_config> tokens_per_expert;  ///< mbmoe_tok_per_expert
  std::int64_t speed_window = 100;                            ///< batches
  logged_time_unit speed_time_unit;           ///< for time/train, time/val and time/total
  logged_time_unit remaining_time_unit;       ///< for time/remaining_estimate
  std::int64_t remaining_skip_batches = 1;    ///< the estimate ignores this many first batches
  std::optional<double> gpu_flops_available;  ///< peak of one GPU, or one rank on CPUs, for MFU

  friend bool operator==(callbacks_config const&, callbacks_config const&) = default;
};

/// Reads `callbacks`, and the names of its `layer_freezing` into `frozen_layers`. A callback that
/// is not implemented is refused when it would change the run, and listed as without effect when it
/// only observes.
[[nodiscard]] callbacks_config read_callbacks(config_reader reader,
                                              std::vector<std::string>& frozen_layers);

}  // namespace mpt
