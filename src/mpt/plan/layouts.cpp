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

/// The ZeRO stages over `data` ranks, of which `near` are on one node.
[[nodiscard]] std::vector<settings> stages_of_zero(int data, int near, bool has_pipeline) {
  std::vector<settings> out{{"zero_stage=0"}};
  if (data == 1) return out;
  for (int stage : {1, 2, 3}) {
    if (has_pipeline && stage == 3) continue;  // values would be gathered for every microbatch
    out.push_back({fmt::format("zero_stage={}", stage)});
    if (near > 1 && near < data && data % near == 0)
      out.push_back({fmt::format("zero_stage={}", stage), fmt::format("parallelism.shard={}", near),
                     fmt::format("parallelism.replicate={}", data / near)});
  }
  return out;
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
        for (auto const& zero : stages_of_zero(data, near, pipeline > 1)) {
          settings layout = zero;
          auto const& written = config.execution.parallelism;
          for (auto const& [name, degree, written_degree] :
               {std::tuple{"tensor", tensor, written.tensor},
                {"context", context, written.context},
                {"pipeline", pipeline, written.pipeline}})
            if (degree != written_degree)
              layout.push_back(fmt::format("parallelism.{}={}", name, degree));
          if (tensor > 1) layout.emplace_back("parallelism.sequence_parallel=true");
          layout.emplace_back("device_train_microbatch_size=auto");  // the last, which is replaced
          out.push_back(std::move(layout));
        }
      }
  }
  return out;
}

std::vector<settings> variations_of(settings const& layout, train_config const& config) {
  std::vector<settings> out;
  auto const add = [&](std::string const& setting) {
    auto varied = layout;
    varied.push_back(setting);
    out.push_back(std::move(varied));
  };
  for (int const sequences : {1, 2, 4, 8}) {
    auto varied = layout;
    varied.back() = fmt::format("device_train_microbatch_size={}", sequences);
    out.push_back(std::move(varied));
  }
  add("fsdp_config.activation_checkpointing=true");
  if (config.execution.reduce_dtype == parallel::zero::reduce_dtype::full)
    add("fsdp_config.mixed_precision=PURE");
  if (config.execution.parallelism.pipeline > 1) {
    for (auto const* const schedule : {"zb-h1", "zb-v"})
      add(fmt::format("parallelism.schedule={}", schedule));
    for (int const stages : {2, 4}) {
      auto varied = layout;
      varied.emplace_back("parallelism.schedule=interleaved");
      varied.push_back(fmt::format("parallelism.stages_per_rank={}", stages));
      out.push_back(std::move(varied));
    }
  }
  return out;
}

}  // namespace mpt
