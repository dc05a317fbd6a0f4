// train_config: the complete configuration of a training run, typed and checked.
//
// Field names and defaults are LLM Foundry's; ParallelLM's own keys are `mirrors`, `parallelism`,
// `zero_stage`, `reduction_order`, `reduce_dtype`, `device`, `ranks`, `threads`, `device_memory`,
// `bucket_bytes`, `local_save_folder`, `local_save_interval`, `dry_run`, `preflight`, `print_plan`,
// `profile`, `plan`, `cluster`, `measure`, `compare_inputs` and `metrics_file`. The settings are in
// sections, and a function takes those that it reads. The functions below compute the values that
// depend on the number of ranks (the split of a batch) or on the data (epochs in batches).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/config/data/gauntlet_config.hpp>
#include <mpt/config/data/icl_task.hpp>
#include <mpt/config/data/loader.hpp>
#include <mpt/config/model.hpp>
#include <mpt/config/model/recompute.hpp>
#include <mpt/config/run/callbacks.hpp>
#include <mpt/config/run/loggers.hpp>
#include <mpt/config/run/optimizer.hpp>
#include <mpt/config/run/parallelism.hpp>
#include <mpt/input_fact.hpp>
#include <mpt/yaml/report.hpp>
#include <mpt/yaml/time.hpp>
#include <parallel/core/error.hpp>
#include <parallel/data/share.hpp>
#include <parallel/zero/level.hpp>

namespace mpt {

/// amp_bf16: bf16 parameters and activations, fp32 master weights, accumulation and reductions.
enum class precision_kind { fp32, amp_bf16 };

/// `tokenizer`: a name or folder.
struct tokenizer_config {
  std::string name;

  friend bool operator==(tokenizer_config const&, tokenizer_config const&) = default;
};

/// The sets that a run reads, and the sequences of its batches.
struct data_config {
  tokenizer_config tokenizer;
  loader_config train_loader;
  std::vector<loader_config> eval_loaders;
  std::int64_t max_seq_len = 2048;
  std::int64_t global_train_batch_size = 0;  ///< sequences per optimizer step, all ranks
  std::optional<std::int64_t> device_train_microbatch_size;  ///< none: auto
  std::int64_t train_subset_num_batches = -1;                ///< of an epoch; -1: all

  friend bool operator==(data_config const&, data_config const&) = default;
};

/// How ranks and devices compute a step.
struct execution_config {
  precision_kind precision = precision_kind::amp_bf16;
  /// fsdp_config.activation_checkpointing; none: plan_run decides whether the cheap parts recompute
  std::optional<block_recomputation> recompute;
  int zero_stage = 0;  ///< 0 to 3
  /// Stage 3: parameters are resharded after each forward pass; none: only where memory requires
  /// it.
  std::optional<bool> reshard_after_forward;
  /// From stage 2 on: gradients are reduced after every microbatch instead of accumulated first;
  /// none: they are accumulated where there are several microbatches and memory allows.
  std::optional<bool> reduce_every_microbatch;
  parallel::zero::reduction_order reduction_order = parallel::zero::reduction_order::by_rank;
  parallel::zero::reduce_dtype reduce_dtype = parallel::zero::reduce_dtype::full;
  parallelism_config parallelism;  ///< degrees of tensor, context and pipeline parallelism
  std::optional<std::int64_t>
      ranks;  ///< ranks as threads of one process; none: the launcher's ranks, or 1
  std::optional<std::int64_t> threads;  ///< threads per rank; none: an equal share of the cores
  std::optional<std::size_t>
      device_memory;  ///< bytes that a rank may use; none: all of the device's memory
  std::int64_t bucket_bytes = std::int64_t{32} << 20;  ///< of a gradient reduction
  bool deterministic = false;                          ///< equal bits in every run also on a GPU
  bool cuda_graphs = false;  ///< a block's forward or backward on a GPU is launched as one graph
  bool offload_optimizer = false;  ///< optimizer states and master weights stay in host memory
  std::string device = "auto";     ///< auto: a GPU when there is one; cpu; cuda; kokkos

  friend bool operator==(execution_config const&, execution_config const&) = default;
};

/// The seconds that a rank waits for another rank before it fails, for each phase of a run.
struct run_deadlines {
  double setup = 120;  ///< until the run owns its folder: communicators, plans, preflight
  double first_step = 600;
  double step = 600;  ///< also of evaluations
  double save = 600;
  double load = 600;

  friend bool operator==(run_deadlines const&, run_deadlines const&) = default;
};

/// The reaction to a batch that must not update: its loss or gradient is not finite or is a spike.
enum class bad_batch_policy : std::uint8_t {
  stop,      ///< ends the run
  skip,      ///< continues as if the batch did not exist
  roll_back  ///< continues after the batch with parameters and states of the last checkpoint
};

/// The definition of a spike and the reaction to it; see spike_limits.
struct spike_check_config {
  bad_batch_policy on_spike = bad_batch_policy::skip;
  double deviations = 6;      ///< a spike is more than this many standard deviations above the mean
  std::int64_t window = 128;  ///< updates over which mean and deviation are computed

  friend bool operator==(spike_check_config const&, spike_check_config const&) = default;
};

/// The reaction to a batch in which a rank computed wrong bits once.
enum class transient_policy : std::uint8_t {
  repeat,  ///< computes the batch again
  stop     ///< ends the run
};

/// The interval at which ranks check that all of them compute and hold the same bits.
struct corruption_check_config {
  time_value interval{0, time_unit::batch};  ///< 0: never
  transient_policy on_transient = transient_policy::repeat;

  friend bool operator==(corruption_check_config const&, corruption_check_config const&) = default;
};

/// The course of a run: its name, its end, and what stops it.
struct run_config {
  std::string name;
  time_value max_duration;
  std::uint64_t seed = 17;
  double dist_timeout = 600;  ///< seconds; the default of every phase's deadline
  run_deadlines deadlines;
  bad_batch_policy on_not_finite = bad_batch_policy::stop;
  std::optional<spike_check_config> spike_check;  ///< none: no batch is a spike
  corruption_check_config corruption_check;
  bool dry_run = false;
  /// How much of large inputs ranks in separate processes compare; see input_fact.
  checksum_extent compare_inputs = checksum_extent::sampled;
  bool preflight = false;   ///< measures network and devices before a run
  bool print_plan = false;  ///< prints the plan of a step instead of training
  bool profile = false;     ///< times operations of a few batches
  /// The machines that the run is on, in the words of plan's cluster=: the run compares its steps
  /// with what they are predicted to take; "": it does not.
  std::string cluster;
  /// Compares the run's layout with the best one that a plan finds for `cluster`, before the run
  bool compares_layouts = false;
  /// Measures this machine by a few batches of the run and writes its rates into this file instead
  /// of training; "": trains.
  std::string measure;

  friend bool operator==(run_config const&, run_config const&) = default;
};

/// The mark in local_save_folder for the number of a rank's node, where only the path distinguishes
/// the nodes' folders.
inline constexpr std::string_view node_rank_mark = "{node_rank}";

/// `text` with every `mark` replaced by `value`.
[[nodiscard]] std::string fill_in(std::string text, std::string_view mark, std::string_view value);

/// The folders that a run begins with, and the folders and intervals of its checkpoints.
struct checkpoint_config {
  std::string pretrained;   ///< the Hugging Face folder whose weights the run begins with, or ""
  std::string adapter;      ///< the PEFT folder whose adapters the run begins with, or ""
  std::string save_folder;  ///< "" for none; {run_name} is filled in
  time_value save_interval{1000, time_unit::batch};
  std::string local_save_folder;  ///< on each node's own disk, with node_rank_mark; "" for none
  time_value local_save_interval{100, time_unit::batch};
  std::int64_t save_num_checkpoints_to_keep = -1;  ///< -1: all
  std::int64_t keep_every =
      0;  ///< checkpoints at multiples of this many batches are kept too; 0: none
  bool save_overwrite = false;
  bool save_weights_only = false;  ///< such checkpoints cannot resume a run
  std::string load_path;           ///< "" for none; {run_name} is filled in
  bool load_weights_only = false;
  bool autoresume = false;

  friend bool operator==(checkpoint_config const&, checkpoint_config const&) = default;
};

/// In-context learning tasks that the model is evaluated on; may be empty.
struct icl_config {
  std::vector<eval::task_config> tasks;
  std::optional<eval::gauntlet_config> gauntlet;
  std::optional<std::int64_t> subset_batches;  ///< batches of a task without categories; none: all

  friend bool operator==(icl_config const&, icl_config const&) = default;
};

/// The intervals and sizes of evaluation, and its tasks.
struct evaluation_config {
  time_value eval_interval{1, time_unit::epoch};  ///< 0: never
  bool eval_first = false;
  std::int64_t eval_subset_num_batches = -1;  ///< -1: all
  std::int64_t device_eval_batch_size = 1;
  icl_config icl;

  friend bool operator==(evaluation_config const&, evaluation_config const&) = default;
};

/// The output and the records of a run.
struct output_config {
  bool progress_bar = false;
  bool log_to_console = true;
  time_value console_log_interval{1, time_unit::batch};
  std::string metrics_file;  ///< JSON lines; "" for none
  loggers_config loggers;
  config_report report;  ///< what to print once: ignored keys and notes

  friend bool operator==(output_config const&, output_config const&) = default;
};

struct train_config {
  model_config model;
  data_config data;
  optimizer_config optimizer;
  execution_config execution;
  run_config run;
  checkpoint_config checkpoint;
  evaluation_config evaluation;
  callbacks_config callbacks;
  output_config output;

  friend bool operator==(train_config const&, train_config const&) = default;
};

/// Whether sums are in an order that does not depend on the number of ranks.
[[nodiscard]] bool is_canonical(execution_config const& execution);

/// Whether the configuration itself asks for recomputation.
[[nodiscard]] bool recomputes(execution_config const& execution);

/// The division of a global batch into the ranks' microbatches.
struct batch_split {
  std::int64_t device_batch = 0;  ///< sequences per step of the rank with the most
  std::int64_t microbatch = 0;    ///< sequences of one forward pass
  std::int64_t accumulation = 0;  ///< forward passes per step of the rank with the most
  std::vector<std::int64_t> remainders =
      {};  ///< sequences of the ranks' smaller last forward passes
};

/// Splits the global batch over `ranks`; with a remainder the first ranks take one sequence more.
/// `planned_microbatch` is used where the configuration says auto. A microbatch larger than the
/// rank's batch is reduced to it, as in LLM Foundry.
///
/// In the canonical order the microbatches are those of a single rank, so that they do not depend
/// on the number of ranks: each rank takes the same power of two of microbatches, the last rank
/// with sequences takes the rest, and further ranks take none.
[[nodiscard]] batch_split split_batch(data_config const& data, execution_config const& execution,
                                      std::int64_t ranks, std::int64_t planned_microbatch = 1);

/// The sequences of a global batch that data rank `rank` of `ranks` trains on.
[[nodiscard]] parallel::data::share share_of(data_config const& data,
                                             execution_config const& execution, std::int64_t rank,
                                             std::int64_t ranks);

/// The clock of this run. `batches_per_epoch` comes from the data; 0 while it is not known.
[[nodiscard]] training_clock clock_of(data_config const& data, run_config const& run,
                                      std::int64_t batches_per_epoch = 0);

}  // namespace mpt
