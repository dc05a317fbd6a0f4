// Compares the memory that a plan states for each rank, which `plan` and dry_run=true print, with
// the most that the rank's device holds during a run, to the byte.
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>

#include "mpt/train/tiny_run.hpp"

namespace trainer_memory_test {
namespace {

using parallel::bf16;
using tiny_run::grid;
using tiny_run::run_files;
using context_method = parallel::context_parallel::method;

/// Model configurations by family, with four blocks and extents that two divides.
std::vector<std::pair<std::string, mpt::model_config>> small_models(run_files const& files) {
  std::vector<std::pair<std::string, mpt::model_config>> models{
      {"mpt", tiny_run::divisible_config(files, 1).model}};
  for (auto const& [family, architecture] : {std::pair{"llama", "LlamaForCausalLM"},
                                             {"qwen2", "Qwen2ForCausalLM"},
                                             {"qwen3", "Qwen3ForCausalLM"},
                                             {"gemma3_text", "Gemma3ForCausalLM"}}) {
    nlohmann::json const json{{"model_type", family},
                              {"architectures", {architecture}},
                              {"vocab_size", 24},
                              {"hidden_size", 16},
                              {"head_dim", 4},
                              {"num_hidden_layers", 4},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 2},
                              {"intermediate_size", 24},
                              {"max_position_embeddings", tiny_run::length},
                              {"tie_word_embeddings", family == std::string("qwen2")}};
    models.emplace_back(family, mpt::from_hf_json(json, "config.json").model);
  }
  return models;
}

std::vector<grid> const layouts{
    {},
    {.data = 2},
    {.zero_stage = 1, .data = 3},
    {.zero_stage = 2, .data = 2},
    {.zero_stage = 3, .data = 4},
    {.zero_stage = 2, .data = 4, .parallelism = {.shard = 2}},
    {.zero_stage = 3, .data = 4, .parallelism = {.replicate = 2}},
    {.parallelism = {.tensor = 2}},
    {.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2, .sequence_parallel = true}},
    {.parallelism = {.context = 2}},
    {.zero_stage = 1, .parallelism = {.context = 2, .context_method = context_method::ulysses}},
    {.parallelism = {.pipeline = 2, .schedule = "gpipe"}},
    {.zero_stage = 1, .data = 2, .parallelism = {.pipeline = 2}},
    {.parallelism = {.pipeline = 2, .schedule = "interleaved", .stages_per_rank = 2}},
    {.zero_stage = 2, .data = 2, .parallelism = {.pipeline = 2, .schedule = "zb-h1"}},
    {.zero_stage = 3,
     .data = 2,
     .parallelism = {.pipeline = 2, .schedule = "zb-v", .stages_per_rank = 2}},
    {.parallelism = {.pipeline = 2, .schedule = "dual-pipe-v", .stages_per_rank = 2}},
    {.parallelism = {.pipeline = 3, .blocks_by_stage = {1, 1, 2}}},
    {.zero_stage = 3,
     .parallelism = {.tensor = 2, .sequence_parallel = true, .context = 2, .pipeline = 2}},
};

/// Settings of a run that change its memory, different ones for consecutive numbers.
mpt::train_config numbered_settings(run_files const& files, mpt::model_config const& model,
                                    std::size_t number) {
  auto config = tiny_run::divisible_config(files, 1);
  config.model = model;
  if (number % 2 == 1)
    config.model.lora = mpt::lora_config{.rank = 2, .targets = {"out_proj", "down_proj"}};
  config.data.device_train_microbatch_size = 1 + static_cast<std::int64_t>(number % 3);
  if (number % 4 == 1) config.execution.recompute = mpt::recompute_all(4);
  if (number % 4 == 2) config.execution.recompute = mpt::with_cheap_recomputation({}, 4);
  config.execution.offload_optimizer = number % 5 == 0;
  if (number % 6 < 3) config.data.eval_loaders = {files.held_out()};
  if (number % 7 == 0) config.execution.reshard_after_forward = true;
  if (number % 7 == 1) config.execution.reduce_every_microbatch = true;
  return config;
}

/// Runs on threads and returns the ranks whose devices held other bytes than planned, as text.
/// Without evaluations the run is told of no memory for activations, so that its steps reserve what
/// they find that they need.
template <class T>
std::set<std::string> memory_differences(mpt::train_config const& config, int ranks) {
  auto const plan = mpt::plan_run<T>(config, ranks);
  auto told = plan;
  if (config.data.eval_loaders.empty())
    for (auto& rank_plan : told.by_pipeline_rank) rank_plan.activations = 0;
  auto const parts = tiny_run::parts_of(config);
  std::mutex lock;
  std::set<std::string> differences;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    int const rank = comm.rank();
    parallel::any_communicator any(std::move(comm));
    parallel::host::device device;
    static_cast<void>(mpt::run_training<T>(config, any, device, told, parts));
    auto const planned =
        plan.for_pipeline_rank(plan.layout.template coordinate<parallel::axis::pipeline>(rank))
            .total();
    std::scoped_lock const guard(lock);
    if (device.peak_bytes() != planned)
      differences.insert(parallel::concat("rank ", rank, " held ", device.peak_bytes(),
                                          " bytes, planned are ", planned));
  });
  return differences;
}

TEST_CASE("planned memory: each rank of a run holds the planned bytes, in every layout") {
  run_files const files;
  std::size_t number = 0;
  for (auto const& named : small_models(files))
    for (std::size_t i = 0; i < layouts.size(); ++i, ++number) {
      auto const config = with_layout(numbered_settings(files, named.second, number), layouts[i]);
      CAPTURE(named.first);
      CAPTURE(i);
      CAPTURE(number);
      int const ranks = layouts[i].ranks();
      for (auto const& difference : memory_differences<float>(config, ranks))
        FAIL_CHECK(difference);
      for (auto const& difference : memory_differences<bf16>(config, ranks)) FAIL_CHECK(difference);
    }
  CHECK(number == 5 * layouts.size());
}

}  // namespace
}  // namespace trainer_memory_test
