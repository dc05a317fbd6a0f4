// train_config: everything one training run is told, typed and checked.
//
// Field names and defaults are LLM Foundry's; our own keys are `mirrors`, `parallelism`,
// `zero_stage`, `reduction_order`, `reduce_dtype`, `device`, `ranks`, `threads`, `device_memory`,
// `bucket_bytes`, `local_save_folder`, `local_save_interval`, `dry_run`, `preflight`, `print_plan`,
// `profile` and `metrics_file`. What depends
// on the number of ranks (the split of a batch) or on the data (epochs in batches) is worked out by
// the functions below, when it is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/config/callbacks.hpp>
#include <mpt/config/loader.hpp>
#include <mpt/config/model.hpp>
#include <mpt/config/optimizer.hpp>
#include <mpt/config/parallelism.hpp>
#include <mpt/config/recompute.hpp>
#include <mpt/config/report.hpp>
#include <mpt/config/scheduler.hpp>
#include <mpt/config/time.hpp>
#include <mpt/eval/gauntlet_config.hpp>
#include <mpt/eval/icl_task.hpp>
#include <parallel/core/error.hpp>
#include <parallel/data/share.hpp>
#include <parallel/train/clipping.hpp>
#include <parallel/zero/level.hpp>

namespace mpt {

/// amp_bf16: bf16 parameters and activations, fp32 master weights, accumulation and reductions.
enum class precision_kind { fp32, amp_bf16 };

/// `tokenizer`: a name or folder.
struct tokenizer_config {
  std::string name;

  friend bool operator==(tokenizer_config const&, tokenizer_config const&) = default;
};

/// What stands in local_save_folder for the number of a rank's node, where nodes are only told
/// apart by it.
inline constexpr std::string_view node_rank_mark = "{node_rank}";

/// `text` with `value` wherever `mark` stands.
[[nodiscard]] std::string fill_in(std::string text, std::string_view mark, std::string_view value);

/// Where and how often checkpoints are written and read.
struct checkpoint_config {
  std::string save_folder;  ///< "" for none; {run_name} is filled in
  time_value save_interval{1000, time_unit::batch};
  std::string local_save_folder;  ///< on each node's own disk, with node_rank_mark; "" for none
  time_value local_save_interval{100, time_unit::batch};
  std::int64_t save_num_checkpoints_to_keep = -1;  ///< -1: all
  std::int64_t keep_every = 0;  ///< those of every so many batches stay besides; 0: none
  bool save_overwrite = false;
  bool save_weights_only = false;  ///< no run can be resumed from such
  std::string load_path;           ///< "" for none; {run_name} is filled in
  bool load_weights_only = false;
  bool autoresume = false;

  friend bool operator==(checkpoint_config const&, checkpoint_config const&) = default;
};

/// When and on how much the model is evaluated.
struct evaluation_config {
  time_value eval_interval{1, time_unit::epoch};  ///< 0: never
  bool eval_first = false;
  std::int64_t eval_subset_num_batches = -1;  ///< -1: all
  std::int64_t device_eval_batch_size = 1;

  friend bool operator==(evaluation_config const&, evaluation_config const&) = default;
};

/// Tasks of in-context learning that the model is evaluated on; without tasks: none.
struct icl_config {
  std::vector<icl::task_config> tasks;
  std::optional<icl::gauntlet_config> gauntlet;
  std::optional<std::int64_t> subset_batches;  ///< of a task without categories; none: all

  friend bool operator==(icl_config const&, icl_config const&) = default;
};

/// What is shown and written while training.
struct logging_config {
  bool progress_bar = false;
  bool log_to_console = true;
  time_value console_log_interval{1, time_unit::batch};
  std::string metrics_file;                ///< JSON lines; "" for none
  std::optional<std::string> tensorboard;  ///< folder of event files, by run name; none: no such

  friend bool operator==(logging_config const&, logging_config const&) = default;
};

/// Seconds a rank waits for another before it is an error, by what the run does.
struct run_deadlines {
  double setup = 120;  ///< until the folder is the run's own: communicators, plans, preflight
  double first_step = 600;
  double step = 600;  ///< and evaluations
  double save = 600;
  double load = 600;

  friend bool operator==(run_deadlines const&, run_deadlines const&) = default;
};

/// What becomes of a batch that must not update: its loss or gradient is not finite, or a spike.
enum class bad_batch_policy : std::uint8_t {
  stop,      ///< ends the run
  skip,      ///< goes on as if the batch had not been there
  roll_back  ///< goes on after it with parameters and states of the last checkpoint
};

/// Which batches are spikes; see spike_limits.
struct spike_check_config {
  bad_batch_policy on_spike = bad_batch_policy::skip;
  double deviations = 6;      ///< standard deviations above the mean that are no spike yet
  std::int64_t window = 128;  ///< updates that mean and deviation are of

  friend bool operator==(spike_check_config const&, spike_check_config const&) = default;
};

/// What becomes of a batch in which a rank was wrong once.
enum class transient_policy : std::uint8_t {
  repeat,  ///< it is computed again
  stop     ///< ends the run
};

/// How often ranks look whether all compute and hold the bits that they should.
struct corruption_check_config {
  time_value interval{0, time_unit::batch};  ///< 0: never
  transient_policy on_transient = transient_policy::repeat;

  friend bool operator==(corruption_check_config const&, corruption_check_config const&) = default;
};

struct train_config {
  std::string run_name;
  model_config model;
  std::string pretrained;  ///< the Hugging Face folder whose weights a run begins with, or ""
  std::string adapter;     ///< PEFT's folder whose adapters it begins with, or ""
  /// fsdp_config.activation_checkpointing; not given: plan_run decides on what is cheap
  std::optional<block_recomputation> recompute;
  tokenizer_config tokenizer;
  optimizer_config optimizer;
  parallel::train::clipping clip;  ///< algorithms.gradient_clipping
  scheduler_config scheduler;
  loader_config train_loader;
  std::vector<loader_config> eval_loaders;
  std::int64_t global_train_batch_size = 0;  ///< sequences per optimizer step, all ranks
  std::optional<std::int64_t> device_train_microbatch_size;  ///< none: auto
  std::int64_t train_subset_num_batches = -1;                ///< of an epoch; -1: all
  time_value max_duration;
  std::int64_t max_seq_len = 2048;
  std::uint64_t seed = 17;
  precision_kind precision = precision_kind::amp_bf16;
  evaluation_config evaluation;
  icl_config icl;
  checkpoint_config checkpoint;
  logging_config logging;
  callbacks_config callbacks;
  double dist_timeout = 600;  ///< of every phase that has no deadline of its own
  run_deadlines deadlines;
  bad_batch_policy on_not_finite = bad_batch_policy::stop;
  std::optional<spike_check_config> spike_check;  ///< none: no batch is a spike
  corruption_check_config corruption_check;

  int zero_stage = 0;  ///< 0 to 3
  /// At stage 3, values do not stay for a step; none: they stay where memory allows.
  std::optional<bool> reshard_after_forward;
  /// From stage 2 on, gradients are not added up before their reduction; none: they are, where
  /// there are several microbatches and memory allows.
  std::optional<bool> reduce_every_microbatch;
  parallel::zero::reduction_order reduction_order = parallel::zero::reduction_order::by_rank;
  parallel::zero::reduce_dtype reduce_dtype = parallel::zero::reduce_dtype::full;
  parallelism_config parallelism;            ///< what data ranks do not divide
  std::optional<std::int64_t> ranks;         ///< threads that train; none: the launcher's, or 1
  std::optional<std::int64_t> threads;       ///< of one rank; none: the cores shared equally
  std::optional<std::size_t> device_memory;  ///< bytes a rank may use; none: what is there
  std::int64_t bucket_bytes = std::int64_t{32} << 20;  ///< of a gradient reduction
  bool deterministic = false;                          ///< the same bits in every run on a GPU, too
  bool cuda_graphs = false;        ///< a block's pass on a GPU is launched as one graph
  bool offload_optimizer = false;  ///< its states and master weights to the host's memory
  std::string device = "auto";     ///< auto: a GPU when there is one; cpu; cuda; kokkos
  bool dry_run = false;
  bool preflight = false;   ///< measures network and devices before a run
  bool print_plan = false;  ///< of a step, instead of training
  bool profile = false;     ///< times operations of a few batches

  config_report report;  ///< what to print once: ignored keys and notes

  friend bool operator==(train_config const&, train_config const&) = default;
};

[[nodiscard]] bool is_canonical(train_config const& config);

/// Whether the configuration itself asks for recomputation.
[[nodiscard]] bool recomputes(train_config const& config);

/// How data ranks work through their parts of a global batch.
struct batch_split {
  std::int64_t device_batch = 0;  ///< sequences of the rank with most, and step
  std::int64_t microbatch = 0;    ///< sequences of one forward pass
  std::int64_t accumulation = 0;  ///< forward passes a step of the rank with most
  std::vector<std::int64_t> remainders =
      {};  ///< sequences of smaller last forward passes of any rank
};

/// Splits the global batch over `ranks`: those that they do not divide are one more for the first.
/// `planned_microbatch` stands in where the configuration says auto. A microbatch larger than the
/// rank's batch is reduced to it, as in LLM Foundry.
///
/// In the canonical order a microbatch is what it is on one rank, so that it does not depend on
/// their number; all ranks but the last with sequences have the same power of two of them, and
/// others none.
[[nodiscard]] batch_split split_batch(train_config const& config, std::int64_t ranks,
                                      std::int64_t planned_microbatch = 1);

/// The sequences of a global batch that data rank `rank` of `ranks` trains on.
[[nodiscard]] parallel::data::share share_of(train_config const& config, std::int64_t rank,
                                             std::int64_t ranks);

/// The clock of this run. `batches_per_epoch` as the data says; 0 while it is not known.
[[nodiscard]] training_clock clock_of(train_config const& config,
                                      std::int64_t batches_per_epoch = 0);

}  // namespace mpt
