#include <mpt/plan/rank_memory.hpp>

#include <algorithm>
#include <cstddef>

#include <mpt/train/setup/run_stages.hpp>

namespace mpt {
namespace {

/// Microbatches times blocks of a rank whose activations are kept at once. A recomputed block has
/// them while its own backward pass runs.
[[nodiscard]] double saved_blocks(train_config const& config, run_plan const& plan, int rank) {
  auto stages = stages_of(config.model, config.execution.parallelism, rank);
  auto const microbatches = stages.least_microbatches(static_cast<int>(plan.split.accumulation));
  auto const& chunks = stages.plan_of(microbatches, parallel::pass::training).chunks;
  double saved = 0, recomputed = 0;
  for (std::size_t k = 0; k < chunks.size(); ++k)
    for (auto block = stages.ranges()[k].begin; block < stages.ranges()[k].end; ++block) {
      auto const i = static_cast<std::size_t>(block);
      bool const recomputes = i < plan.recompute.size() && plan.recompute[i].block;
      (recomputes ? recomputed : saved) += recomputes ? 1 : chunks[k].slots;
    }
  return saved + std::min(recomputed, 1.0);
}

}  // namespace

std::vector<rank_memory> memory_of_ranks(train_config const& config, run_plan const& plan) {
  auto const& parallelism = config.execution.parallelism;
  auto const length = static_cast<double>(config.data.train_loader.max_seq_len);
  double const rows = static_cast<double>(plan.split.microbatch) * length / parallelism.context;
  double const heads = static_cast<double>(config.model.n_heads) / parallelism.tensor;
  bool const shards_values = config.execution.zero_stage == 3;
  std::vector<rank_memory> out;
  for (int rank = 0; rank < parallelism.pipeline; ++rank) {
    auto const& bytes = plan.for_pipeline_rank(rank);
    auto const stages = stages_of(config.model, parallelism, rank);
    bool const has_head =
        std::ranges::any_of(stages.ranges(), [](auto const& range) { return range.exit; });
    double const saved = saved_blocks(config, plan, rank);
    double const residuals = saved * rows * static_cast<double>(config.model.d_model);
    double const row_share = parallelism.sequence_parallel ? 1.0 / parallelism.tensor : 1;
    auto const words = static_cast<double>(config.model.vocab_size) / parallelism.tensor;
    out.push_back(
        {.value_bytes = static_cast<double>(bytes.values + (shards_values ? bytes.buffers : 0)),
         .gradients = static_cast<double>(bytes.gradients) / 4,
         .states = static_cast<double>(bytes.master) / 4,
         .activations = static_cast<double>(bytes.activations + bytes.scratch.total()),
         .gathered = parallelism.sequence_parallel ? 2 * 2 * residuals : 0,  // two of two bytes
         .logits = has_head ? rows * words : 0,
         .tensor_parts = static_cast<double>(parallelism.tensor),
         .scores = saved * rows * length * heads,
         .residuals = row_share * residuals});
  }
  return out;
}

double bytes_of(rank_memory const& rank, parallel::cluster::program_memory const& program) {
  double const saved =
      rank.activations - rank.temporaries - (program.gathers_again ? rank.gathered : 0);
  double const logits = rank.logits * (program.gathers_logits ? rank.tensor_parts : 1);
  // the logits are gone when the blocks' backward passes begin
  double const working =
      std::max(program.activations * rank.temporaries, program.logit_bytes * logits);
  return rank.value_bytes + program.gradient_bytes * rank.gradients +
         program.state_bytes * rank.states + program.activations * saved + working +
         program.score_bytes * rank.scores + program.residual_bytes * rank.residuals +
         program.workspace;
}

}  // namespace mpt
