#include <mpt/plan/layouts.hpp>

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace mpt {
namespace {

/// The powers of two up to `limit` that divide `number`.
[[nodiscard]] std::vector<int> powers_that_divide(int number, int limit) {
  std::vector<int> out;
  for (int degree = 1; degree <= limit && number % degree == 0; degree *= 2) out.push_back(degree);
  return out;
}

/// The degrees of a pipeline over `ranks` for so many blocks: those that leave every stage a block.
[[nodiscard]] std::vector<int> pipeline_degrees(int ranks, int blocks) {
  std::vector<int> out;
  for (int degree = 1; degree <= std::min(ranks, blocks); ++degree)
    if (ranks % degree == 0 && (degree == 1 || blocks / degree >= 1)) out.push_back(degree);
  return out;
}

[[nodiscard]] settings shards_of(int shard, int data) {
  return {fmt::format("parallelism.shard={}", shard),
          fmt::format("parallelism.replicate={}", data / shard)};
}

/// The data ranks of one model's rank that are on one node.
[[nodiscard]] int data_ranks_on_node(parallelism_config const& p,
                                     parallel::cluster::cluster const& machines) {
  return std::max(1, machines.devices_on_node / p.tensor / p.context);
}

/// The ZeRO stages over `data` ranks, of which `near` are on one node. `written`: the file's
/// degrees, which those of a layout replace.
[[nodiscard]] std::vector<settings> stages_of_zero(int data, int near, bool has_pipeline,
                                                   parallelism_config const& written) {
  bool const divides = written.shard || written.replicate || written.shard_within_node;
  settings const over_all = divides ? shards_of(data, data) : settings();
  auto const stage = [](int level, settings const& shards) {
    return with_changes({fmt::format("zero_stage={}", level)}, shards);
  };
  std::vector<settings> out{stage(0, over_all)};
  if (data == 1) return out;
  for (int level : {1, 2, 3}) {
    if (has_pipeline && level == 3) continue;  // values would be gathered for every microbatch
    out.push_back(stage(level, over_all));
    if (near > 1 && near < data && data % near == 0)
      out.push_back(stage(level, shards_of(near, data)));
  }
  return out;
}

/// The microbatch of a pipeline whose rank trains on so many sequences: the largest power of two
/// that keeps the pipeline full for most of a step.
[[nodiscard]] std::int64_t pipelined_microbatch(std::int64_t sequences, int pipeline) {
  std::int64_t out = 1;
  while (8 * out * pipeline <= sequences) out *= 2;
  return out;
}

[[nodiscard]] std::string microbatch_setting(std::int64_t sequences) {
  return fmt::format("device_train_microbatch_size={}", sequences);
}

/// The blocks of at least three stages of which the first, the last or both have one fewer than an
/// even part, as they have the embedding and the head too; empty where a stage would have none.
[[nodiscard]] std::string uneven_stages(int blocks, int stages, bool first, bool last) {
  std::vector<int> sizes(static_cast<std::size_t>(stages), blocks / stages);
  for (int i = 0; i < blocks % stages; ++i) ++sizes[static_cast<std::size_t>(i)];
  auto const give = [&](std::size_t from) {
    --sizes[from];
    auto const inner = std::ranges::min_element(sizes.begin() + 1, sizes.end() - 1);
    ++*inner;
  };
  if (first) give(0);
  if (last) give(sizes.size() - 1);
  return sizes.front() < 1 || sizes.back() < 1 ? "" : fmt::format("{}", fmt::join(sizes, ","));
}

}  // namespace

std::vector<settings> layout_settings(train_config const& config,
                                      parallel::cluster::cluster const& machines) {
  std::vector<settings> out;
  int const ranks = machines.devices();
  auto const length = config.data.train_loader.max_seq_len;
  int const most_context = length >= 16384 ? 16 : length >= 8192 ? 2 : 1;
  for (int const tensor : powers_that_divide(ranks, machines.devices_on_node)) {
    if (config.model.n_heads % tensor != 0) break;
    for (int const context : powers_that_divide(ranks / tensor, most_context))
      for (int const pipeline :
           pipeline_degrees(ranks / tensor / context, static_cast<int>(config.model.n_layers))) {
        int const data = ranks / tensor / context / pipeline;
        if (config.data.global_train_batch_size < data) continue;
        int const near = std::max(1, machines.devices_on_node / tensor / context);
        auto const& written = config.execution.parallelism;
        for (auto const& zero : stages_of_zero(data, near, pipeline > 1, written)) {
          settings layout = zero;
          for (auto const& [name, degree, written_degree] :
               {std::tuple{"tensor", tensor, written.tensor},
                {"context", context, written.context},
                {"pipeline", pipeline, written.pipeline}})
            if (degree != written_degree)
              layout.push_back(fmt::format("parallelism.{}={}", name, degree));
          if (tensor > 1) layout.emplace_back("parallelism.sequence_parallel=true");
          if (pipeline != written.pipeline && !written.blocks_by_stage.empty())
            layout.emplace_back("parallelism.blocks_by_stage=");
          layout.push_back(pipeline == 1
                               ? std::string("device_train_microbatch_size=auto")
                               : microbatch_setting(pipelined_microbatch(
                                     config.data.global_train_batch_size / data, pipeline)));
          out.push_back(std::move(layout));
        }
      }
  }
  return out;
}

std::vector<settings> alternatives(variation kind, train_config const& config,
                                   parallel::cluster::cluster const& machines) {
  auto const& execution = config.execution;
  auto const& p = execution.parallelism;
  std::vector<settings> out;
  switch (kind) {
    case variation::schedule:
      if (p.pipeline == 1) break;
      for (auto const& [schedule, stages] : {std::pair{"1f1b", 1},
                                             {"zb-h1", 1},
                                             {"zb-v", 2},
                                             {"dual-pipe-v", 2},
                                             {"interleaved", 2},
                                             {"interleaved", 4}})
        out.push_back({fmt::format("parallelism.schedule={}", schedule),
                       fmt::format("parallelism.stages_per_rank={}", stages)});
      break;
    case variation::microbatch:
      for (int const sequences : {1, 2, 4, 8, 16}) out.push_back({microbatch_setting(sequences)});
      break;
    case variation::recomputation:
      for (auto const* const value : {"false", "true"})
        out.push_back({fmt::format("fsdp_config.activation_checkpointing={}", value)});
      break;
    case variation::shards: {
      int const data = machines.devices() / p.ranks_of_model();
      if (execution.zero_stage == 0) break;
      for (int shard = 2 * data_ranks_on_node(p, machines); shard < data; shard *= 2)
        if (data % shard == 0) out.push_back(shards_of(shard, data));
      break;
    }
    case variation::stages:
      if (p.stages() < 3) break;
      for (auto const& [first, last] : {std::pair{false, true}, {true, true}})
        if (auto const blocks =
                uneven_stages(static_cast<int>(config.model.n_layers), p.stages(), first, last);
            !blocks.empty())
          out.push_back({fmt::format("parallelism.blocks_by_stage=[{}]", blocks)});
      break;
    case variation::reduction:
      if (execution.reduce_dtype == parallel::zero::reduce_dtype::full)
        out.push_back({"reduce_dtype=bf16"});
      break;
  }
  return out;
}

std::vector<settings> roomier_settings(train_config const& config) {
  std::vector<settings> out;
  std::string const recompute = "fsdp_config.activation_checkpointing=true";
  if (config.data.device_train_microbatch_size.value_or(1) > 1)
    out.push_back({microbatch_setting(1)});
  out.push_back({recompute});
  if (!out.front().front().starts_with("fsdp")) out.push_back({microbatch_setting(1), recompute});
  return out;
}

settings with_changes(settings layout, settings const& changes) {
  for (auto const& change : changes) {
    auto const key = change.substr(0, change.find('=') + 1);
    auto const found = std::ranges::find_if(
        layout, [&](std::string const& setting) { return setting.starts_with(key); });
    if (found == layout.end())
      layout.push_back(change);
    else
      *found = change;
  }
  return layout;
}

}  // namespace mpt
