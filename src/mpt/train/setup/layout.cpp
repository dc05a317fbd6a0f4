#include <mpt/train/setup/layout.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <parallel/pipeline/assign.hpp>
#include <parallel/pipeline/schedules.hpp>
#include <parallel/tensor/slices.hpp>
#include <parallel/train/process_groups.hpp>
#include <parallel/train/setup/canonical_order.hpp>

namespace mpt {
namespace {

/// The different sequence lengths of the training and evaluation loaders.
[[nodiscard]] std::vector<std::int64_t> sequence_lengths(data_config const& data) {
  std::vector<std::int64_t> out{data.train_loader.max_seq_len};
  for (auto const& loader : data.eval_loaders)
    if (std::ranges::find(out, loader.max_seq_len) == out.end()) out.push_back(loader.max_seq_len);
  return out;
}

/// The rules that a tensor degree breaks.
[[nodiscard]] std::vector<std::string> rules_broken_by_tensor(model_config const& model,
                                                              data_config const& data,
                                                              parallelism_config const& p,
                                                              int degree) {
  std::vector<std::string> out;
  if (degree == 1) return out;
  auto const require_enough = [&](std::string_view setting, std::int64_t count) {
    if (count < degree)
      out.push_back(parallel::concat(setting, ' ', count, " must be at least ", degree));
  };
  require_enough("n_heads", model.n_heads);
  if (auto const keys = kv_heads(model); keys < degree && degree % keys != 0)
    out.push_back(
        parallel::concat("kv_n_heads ", keys, " must be at least ", degree, ", or divide it"));
  require_enough("the hidden width of the feed-forward layer", ffn_hidden(model));
  require_enough("vocab_size", model.vocab_size);
  if (p.sequence_parallel)
    for (auto const length : sequence_lengths(data))
      if (auto const rank_length = length / p.context; rank_length % degree != 0)
        out.push_back(parallel::concat("with sequence_parallel, the sequence length ",
                                       p.context == 1 ? "" : "of a context rank, ", rank_length,
                                       " must be divisible by ", degree));
  return out;
}

[[nodiscard]] std::vector<std::string> rules_broken_by_context(model_config const& model,
                                                               data_config const& data,
                                                               parallelism_config const& p,
                                                               int degree) {
  std::vector<std::string> out;
  if (degree == 1) return out;
  for (auto const length : sequence_lengths(data))
    if (length % (2 * std::int64_t{degree}) != 0)
      out.push_back(
          parallel::concat("sequences of ", length, " must divide into 2 x ", degree, " chunks"));
  bool const exchanges = p.context_method == parallel::context_parallel::method::ulysses;
  if (exchanges && rules_broken_by_tensor(model, data, p, p.tensor).empty()) {
    parallel::ops::head_layout const heads{.heads = model.n_heads, .kv_heads = kv_heads(model)};
    using parallel::tensor::axis_position;
    auto const largest = axis_position{0, p.tensor}.part_of(heads);
    auto const smallest = axis_position{p.tensor - 1, p.tensor}.part_of(heads);
    auto const require_equal_heads = [&](std::string_view setting, std::int64_t count,
                                         std::int64_t smallest_count) {
      if (count != smallest_count)
        out.push_back(parallel::concat("with ulysses, each of ", p.tensor,
                                       " tensor ranks must have an equal number of ", setting));
      else if (count % degree != 0)
        out.push_back(parallel::concat("with ulysses, ", setting, ' ', count,
                                       p.tensor == 1 ? "" : " of a tensor rank",
                                       " must be divisible by ", degree));
    };
    require_equal_heads("n_heads", largest.heads, smallest.heads);
    if (heads.kv_heads != heads.heads)
      require_equal_heads("kv_n_heads", largest.kv_heads, smallest.kv_heads);
  }
  return out;
}

[[nodiscard]] std::vector<std::string> rules_broken_by_experts(model_config const& model,
                                                               int degree) {
  if (degree == 1) return {};
  if (!model.experts) return {"the model has no experts"};
  if (model.experts->count % degree == 0) return {};
  return {
      parallel::concat("moe_num_experts ", model.experts->count, " must be divisible by ", degree)};
}

/// Adds a problem for each setting that does not go with divided experts.
void check_divided_experts(std::vector<std::string>& problems, train_config const& config,
                           training_layout const& layout) {
  int const degree = config.execution.parallelism.expert;
  if (degree == 1) return;
  auto const add_unless = [&](bool fits, auto const&... parts) {
    if (!fits) problems.push_back(parallel::concat("expert ", degree, ": ", parts...));
  };
  auto const place = parallel::train::place_in(layout, level_of(config.execution));
  if (auto problem = parallel::train::broken_by_expert_ranks(place, degree); !problem.empty())
    problems.push_back(std::move(problem));
  int const data = data_ranks(layout);
  auto const sequences_of = [&](int rank) {
    return share_of(config.data, config.execution, rank, data).size();
  };
  add_unless(sequences_of(0) == sequences_of(data - 1), "the ", data,
             " ranks with different sequences need equal shares, but of global_train_batch_size ",
             config.data.global_train_batch_size, " the first has ", sequences_of(0),
             " and the last ", sequences_of(data - 1), "; set it to ", data * sequences_of(0));
  add_unless(!is_canonical(config.execution) || std::has_single_bit(static_cast<unsigned>(degree)),
             "the canonical order of reductions needs a power of two");
  add_unless(config.run.corruption_check.interval.count == 0,
             "corruption_check lets a rank compute the rows of another alone; leave it out");
}

/// The blocks at which a pipeline stage may begin: no block from there on attends to the keys of a
/// block before it.
[[nodiscard]] std::vector<std::string> possible_stage_begins(model_config const& model) {
  std::vector<std::string> out;
  std::int64_t earliest = model.n_layers;  // block whose keys the blocks from i on attend to
  for (std::int64_t i = model.n_layers; i-- > 0;) {
    earliest = std::min(earliest, key_source(model, i));
    if (earliest == i) out.insert(out.begin(), std::to_string(i));
  }
  return out;
}

/// Refuses stages that separate a block from the block whose keys it attends to.
void check_shared_keys(std::vector<std::string>& problems, model_config const& model,
                       parallelism_config const& parallelism,
                       std::vector<parallel::pipeline::stage_blocks> const& stages) {
  auto const& p = parallelism;
  auto const possible_begins = possible_stage_begins(model);
  std::vector<std::string> stage_begins;
  for (auto const& stage : stages) stage_begins.push_back(std::to_string(stage.begin));
  for (auto const& stage : stages)
    for (int i = stage.begin; i < stage.end; ++i)
      if (auto const source = key_source(model, i); source < stage.begin) {
        problems.push_back(parallel::concat(
            "pipeline ", p.pipeline, ": block ", i, " attends to the keys of block ", source,
            " (reuse_kv_layer_idx), so that one stage must hold both, but stages begin at blocks ",
            detail::join_words(stage_begins), ", and may only at ",
            detail::join_words(possible_begins), "; ",
            possible_begins.size() >= stages.size()
                ? std::string("give blocks_by_stage")
                : parallel::concat(
                      "set pipeline to ",
                      std::max(1, static_cast<int>(possible_begins.size()) / p.stages_per_rank))));
        return;
      }
}

void check_pipeline(std::vector<std::string>& problems, model_config const& model,
                    parallelism_config const& parallelism) {
  auto const& p = parallelism;
  if (p.pipeline == 1) return;
  if (model.experts && model.experts->joins_layers && model.experts->loss_weight > 0)
    problems.push_back(parallel::concat(
        "pipeline ", p.pipeline,
        ": the balancing loss of all layers together needs them on one rank; set pipeline to 1, or "
        "ffn_config.moe_joined_loss (output_router_logits of a family) to false"));
  auto const blocks = static_cast<int>(model.n_layers);
  if (blocks < p.stages()) {
    problems.push_back(
        parallel::concat("pipeline ", p.pipeline, ": ", p.schedule, " has ", p.stages(),
                         " stages, which need as many blocks, but n_layers is ", blocks,
                         "; set pipeline to ", std::max(1, blocks / p.stages_per_rank)));
    return;
  }
  try {
    auto const schedule = parallel::pipeline::make_schedule(p.schedule, p.pipeline, 2 * p.pipeline,
                                                            p.stages_per_rank);
    check_shared_keys(problems, model, parallelism,
                      parallel::pipeline::assign_blocks(schedule, blocks, p.blocks_by_stage));
  } catch (parallel::error const& problem) {
    problems.push_back(parallel::concat("pipeline ", p.pipeline, ": blocks_by_stage: ",
                                        problem.what(), "; leave it out to divide them evenly"));
  }
}

/// Completes `model_layout` with the degrees of shard and replicate for `ranks` ranks, a multiple
/// of the model's ranks.
[[nodiscard]] training_layout add_data_ranks(std::vector<std::string>& problems,
                                             training_layout const& model_layout,
                                             execution_config const& execution, int ranks) {
  auto const& p = execution.parallelism;
  int const data = ranks / model_layout.ranks();
  if (execution.zero_stage == 0 && p.shard.value_or(1) > 1) {
    problems.push_back(parallel::concat("shard ", *p.shard,
                                        ": without ZeRO nothing is sharded; set zero_stage to 1, 2 "
                                        "or 3, or use replicate"));
    return model_layout.with_degree<axis::replicate>(data);
  }
  int shard = 1;
  if (execution.zero_stage > 0)
    shard = p.shard ? *p.shard : std::max(1, data / p.replicate.value_or(1));
  int const replicate = p.replicate ? *p.replicate : std::max(1, data / shard);
  if (std::int64_t{shard} * replicate != data)
    problems.push_back(parallel::concat(
        "shard ", shard, " x replicate ", replicate, ": must be the ", data, " of ", ranks,
        " ranks that ", model_layout.text(), " leaves; set ",
        data % shard == 0
            ? parallel::concat("replicate to ", data / shard)
            : parallel::concat("shard to ",
                               detail::nearest_degree(
                                   shard, [&](int candidate) { return data % candidate == 0; })),
        p.shard && p.replicate ? "" : ", or leave it out"));
  return model_layout.with_degree<axis::shard>(shard).with_degree<axis::replicate>(replicate);
}

/// Adds a problem for each setting that the canonical order of reductions does not support.
void check_canonical_order(std::vector<std::string>& problems, data_config const& data,
                           optimizer_config const& optimizer, execution_config const& execution,
                           training_layout const& layout) {
  if (!is_canonical(execution)) return;
  for (auto& problem : parallel::train::broken_by_canonical_order(layout, optimizer.clip.kind))
    problems.push_back(std::move(problem));
  int const shard = layout.degree<axis::shard>();
  int const replicate = layout.degree<axis::replicate>();
  if (replicate > 1 && (shard & (shard - 1)) != 0) {
    int fits = 1;
    while (2 * fits < shard && shard * replicate % (2 * fits) == 0) fits *= 2;
    problems.push_back(parallel::concat("shard ", shard, " x replicate ", replicate,
                                        ": the canonical order of reductions needs a power of two "
                                        "of shards if there are replicas; set "
                                        "shard to ",
                                        fits, ", or replicate to 1"));
  }
  if (!data.device_train_microbatch_size)
    problems.emplace_back(
        "device_train_microbatch_size auto: the canonical order of reductions sums microbatches "
        "whose size must not depend on the memory that is there; give it a number");
}

}  // namespace

parallel::zero::optimizer_memory optimizer_memory_of(execution_config const& execution) {
  return execution.offload_optimizer ? parallel::zero::optimizer_memory::host
                                     : parallel::zero::optimizer_memory::device;
}

parallel::zero::level level_of(execution_config const& execution) {
  return static_cast<parallel::zero::level>(execution.zero_stage);
}

parallel::train::stepper_options stepper_options_of(optimizer_config const& optimizer,
                                                    execution_config const& execution,
                                                    run_config const& run) {
  return {.level = level_of(execution),
          .bucket_bytes = static_cast<std::size_t>(execution.bucket_bytes),
          .reshard_after_forward = execution.reshard_after_forward.value_or(true),
          .reduce_every_microbatch = execution.reduce_every_microbatch.value_or(true),
          .gather_before_use = true,
          .clip = optimizer.clip,
          .keep_finite = run.on_not_finite != bad_batch_policy::stop || run.spike_check.has_value(),
          .order = execution.reduction_order,
          .reduce_dtype = execution.reduce_dtype,
          .optimizer_memory = optimizer_memory_of(execution),
          .pipeline = execution.parallelism.pipeline_options()};
}

int data_ranks(training_layout const& layout) {
  return layout.size<axis::replicate, axis::shard>();
}

void shard_within(parallelism_config& p, int ranks, int node_ranks) {
  if (!p.shard_within_node || p.shard || p.replicate) return;
  int const data = std::max(1, ranks / p.ranks_of_model());
  int shard = std::clamp(node_ranks / (p.context * p.tensor), 1, data);
  while (data % shard != 0) --shard;
  p.shard = shard;
}

training_layout run_layout(train_config const& config, int ranks) {
  auto const& p = config.execution.parallelism;
  auto layout = p.layout_of_model();
  int const model_layout = layout.ranks();
  std::vector<std::string> problems;
  detail::check_degree(problems, "tensor", p.tensor, [&](int degree) {
    return rules_broken_by_tensor(config.model, config.data, p, degree);
  });
  detail::check_degree(problems, "context", p.context, [&](int degree) {
    return rules_broken_by_context(config.model, config.data, p, degree);
  });
  detail::check_degree(problems, "expert", p.expert,
                       [&](int degree) { return rules_broken_by_experts(config.model, degree); });
  check_pipeline(problems, config.model, config.execution.parallelism);
  if (ranks % model_layout != 0) {
    int const lower_multiple = ranks / model_layout * model_layout;
    problems.push_back(parallel::concat(
        "ranks ", ranks, ": ", layout.text(), " needs a multiple of ", model_layout, "; start ",
        lower_multiple > 0 ? parallel::concat(lower_multiple, " or ") : std::string(),
        std::int64_t{lower_multiple} + model_layout));
  } else {
    layout = add_data_ranks(problems, layout, config.execution, ranks);
    try {
      static_cast<void>(split_batch(config.data, config.execution, ranks / model_layout));
    } catch (parallel::error const& problem) {
      problems.emplace_back(problem.what());
    }
  }
  check_canonical_order(problems, config.data, config.optimizer, config.execution, layout);
  check_divided_experts(problems, config, layout);
  for (auto const& [is_used, key] :
       {std::pair{config.callbacks.generate.has_value(), "callbacks.generate_callback"},
        std::pair{!config.evaluation.icl.tasks.empty(), "icl_tasks"}})
    if (is_used && (p.context > 1 || p.expert > 1 || (p.sequence_parallel && p.tensor > 1)))
      problems.push_back(parallel::concat(
          key,
          ": a text is read token by token, which cannot be divided; leave it out, or set "
          "context and expert to 1 and sequence_parallel to false"));
  if (problems.size() == 1) parallel::fail("parallelism: ", problems.front());
  std::string lines;
  for (auto const& problem : problems) lines += "\n  " + problem;
  parallel::require(problems.empty(), "parallelism: this layout is not possible:", lines);
  return layout;
}

}  // namespace mpt

namespace mpt::detail {

std::string join_words(std::vector<std::string> const& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i)
    out += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return out;
}

}  // namespace mpt::detail
