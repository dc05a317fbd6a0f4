// run_plan: what a run will need, computed before anything is allocated: memory per rank,
// microbatch, tokens and steps; and its description as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/train/report/metrics.hpp>
#include <mpt/train/setup/layout.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/train/plan.hpp>

namespace mpt {

/// The plan of a run.
struct run_plan {
  training_layout layout{};
  batch_split split{};  ///< how a data rank splits its batch
  /// Memory by pipeline rank; its activations are the larger of those of training and evaluation
  std::vector<train::memory_plan> by_pipeline_rank{};
  train::memory_plan memory{};           ///< of the rank that needs the most
  std::size_t available = 0;             ///< bytes that each rank may use; 0: unknown
  bool is_microbatch_automatic = false;  ///< the plan chose the microbatch
  /// Settings that the plan chooses where the configuration leaves them open (stepper_options)
  block_recomputation recompute{};
  bool reshard_after_forward = true;
  bool reduce_every_microbatch = true;
  /// A rank has memory for a copy of what it saves, in addition to what training needs
  bool saves_in_background = true;
  /// One microbatch of training through the whole model, as planned and without recomputation
  train::memory_plan microbatch{};
  train::memory_plan without_recomputation{};

  [[nodiscard]] train::memory_plan const& for_pipeline_rank(int pipeline_rank) const;

  /// Floating-point operations per token that recomputation adds.
  [[nodiscard]] double recomputed_per_token(index sequence_length) const;
};

/// The stepper options of a planned run.
[[nodiscard]] train::stepper_options stepper_options_of(optimizer_config const& optimizer,
                                                        execution_config const& execution,
                                                        run_config const& run,
                                                        run_plan const& plan);

/// The utilisation of a planned run: operations per token on devices whose peaks sum to
/// `peak_flops`.
[[nodiscard]] utilisation utilisation_of(model_config const& model, data_config const& data,
                                         run_plan const& plan, double peak_flops);

/// Bytes of a checkpoint that a rank of a run writes.
[[nodiscard]] std::size_t bytes_to_save(checkpoint_config const& checkpoint,
                                        train::memory_plan const& rank);

/// Plans a run with elements T: its layout, microbatches, recomputation and memory. Throws what
/// run_layout throws. Defined in plan_run.hpp.
///
///     auto const plan = plan_run<bf16>(config, 8, std::size_t{80} << 30);
///     require_fits(plan);
///
/// - `ranks`: the number of ranks of the run
/// - `available`: the bytes of the device's memory that a rank may use; 0: unknown
/// - `host`: the bytes of the host's memory that a rank may use, where the host has other memory
///   than the device
template <class T>
[[nodiscard]] run_plan plan_run(train_config const& config, int ranks, std::size_t available = 0,
                                std::optional<std::size_t> host = std::nullopt);

/// Whether every rank has the memory that the plan needs; true where the memory is unknown.
[[nodiscard]] bool fits(run_plan const& plan);

/// Refuses a plan that does not fit, saying what to change.
void require_fits(run_plan const& plan);

/// Text such as "8: pipeline 2 x shard 2 x tensor 2, ZeRO stage 3".
[[nodiscard]] std::string describe_layout(execution_config const& execution,
                                          training_layout const& layout);

/// Text such as "values are gathered once a step (automatic), gradients are reduced after every
/// microbatch"; empty where neither is sharded.
[[nodiscard]] std::string describe_sharding(execution_config const& execution,
                                            run_plan const& plan);

/// Text such as "1f1b, 2 stages of 2 and 1 blocks".
[[nodiscard]] std::string describe_stages(model_config const& model,
                                          parallelism_config const& parallelism);

/// The text that dry_run=true prints.
[[nodiscard]] std::string describe_plan(train_config const& config, run_plan const& plan, int ranks,
                                        std::int64_t batches);

}  // namespace mpt
