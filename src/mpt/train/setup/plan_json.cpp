#include <mpt/train/setup/plan_json.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

#include <mpt/config/model/linear_layers.hpp>
#include <mpt/config/model/sizes.hpp>
#include <mpt/train/setup/idle_ranks.hpp>
#include <parallel/train/step/show_step.hpp>

namespace mpt {

namespace {

using nlohmann::ordered_json;

ordered_json json_of_model(model_config const& model) {
  auto const& m = model;
  ordered_json out{{"family", m.family},
                   {"parameters", parameter_count(m)},
                   {"layers", m.n_layers},
                   {"width", m.d_model},
                   {"heads", m.n_heads},
                   {"vocabulary", m.vocab_size},
                   {"positions", positions_name(m)}};
  if (m.experts)
    out["experts"] = {{"count", m.experts->count},
                      {"top_k", m.experts->top_k},
                      {"layers", expert_layer_count(m)},
                      {"parameters_of_a_token", used_parameter_count(m)}};
  if (m.lora)
    out["adapters"] = {{"rank", m.lora->rank}, {"parameters", adapter_parameter_count(m)}};
  return out;
}

ordered_json json_of_layout(model_config const& model, execution_config const& execution,
                            run_plan const& plan, int ranks) {
  auto const& layout = plan.layout;
  auto const& p = execution.parallelism;
  ordered_json out{{"text", describe_layout(execution, layout)},
                   {"ranks", ranks},
                   {"data_ranks", data_ranks(layout)},
                   {"pipeline", layout.degree<axis::pipeline>()},
                   {"replicate", layout.degree<axis::replicate>()},
                   {"shard", layout.degree<axis::shard>()},
                   {"context", layout.degree<axis::context>()},
                   {"tensor", layout.degree<axis::tensor>()},
                   {"zero_stage", execution.zero_stage},
                   {"reshard_after_forward", plan.reshard_after_forward},
                   {"reduce_every_microbatch", plan.reduce_every_microbatch}};
  if (model.experts) out["experts"] = {{"ranks", p.expert}, {"buffer", p.expert_buffer}};
  if (p.pipeline > 1)
    out["schedule"] = {{"name", p.schedule},
                       {"text", describe_stages(model, execution.parallelism)},
                       {"idle_share", idle_share_of_pipeline(execution.parallelism, plan)}};
  return out;
}

ordered_json json_of_recomputation(run_plan const& plan) {
  if (plan.recompute.empty()) return nullptr;
  auto const blocks = std::ranges::count_if(
      plan.recompute, [](recomputation const& r) { return r != recomputation{}; });
  return {{"blocks", blocks},
          {"activation_bytes_of_microbatch", plan.microbatch.activations},
          {"activation_bytes_without", plan.without_recomputation.activations},
          {"operations_of_microbatch", plan.microbatch.operations},
          {"operations_without", plan.without_recomputation.operations}};
}

ordered_json json_of_memory(checkpoint_config const& checkpoint, run_plan const& plan) {
  auto by_pipeline_rank = ordered_json::array();
  for (auto const& rank : plan.by_pipeline_rank)
    by_pipeline_rank.push_back({{"total_bytes", rank.total()}, {"bytes", to_json(rank)}});
  ordered_json out{{"total_bytes", plan.memory.total()},
                   {"bytes", to_json(plan.memory)},
                   {"host_bytes", plan.memory.offloaded},
                   {"by_pipeline_rank", std::move(by_pipeline_rank)}};
  out["available_bytes"] = plan.available > 0 ? ordered_json(plan.available) : ordered_json();
  out["fits"] = plan.available > 0 ? ordered_json(fits(plan)) : ordered_json();
  if (!checkpoint.save_folder.empty()) {
    std::size_t largest = 0;
    for (auto const& rank : plan.by_pipeline_rank)
      largest = std::max(largest, bytes_to_save(checkpoint, rank));
    out["checkpoint_bytes"] = largest;
    out["saves_in_background"] = plan.saves_in_background;
  }
  return out;
}

}  // namespace

ordered_json to_json(train::memory_plan const& memory) {
  ordered_json out{{"parameters", memory.values}, {"gradients", memory.gradients}};
  if (memory.trees > 0) out["gradients_of_microbatches"] = memory.trees;
  out["master_weights"] = memory.master;
  out["optimizer_states"] = memory.optimizer;
  out["buffers"] = memory.buffers;
  out["activations"] = memory.activations;
  out["scratch"] = memory.scratch.total();
  return out;
}

ordered_json json_of_plan(train_config const& config, run_plan const& plan, int ranks,
                          std::int64_t batches) {
  index const length = config.data.train_loader.max_seq_len;
  auto const tokens = config.data.global_train_batch_size * length;
  return {{"run_name", config.run.name},
          {"model", json_of_model(config.model)},
          {"precision", config.execution.precision == precision_kind::fp32 ? "fp32" : "bf16"},
          {"reduce_dtype",
           config.execution.reduce_dtype == parallel::zero::reduce_dtype::bf16 ? "bf16" : "fp32"},
          {"optimizer", config.optimizer.name},
          {"layout", json_of_layout(config.model, config.execution, plan, ranks)},
          {"batch",
           {{"sequences", config.data.global_train_batch_size},
            {"tokens_of_sequence", length},
            {"tokens", tokens},
            {"sequences_of_rank", plan.split.device_batch},
            {"microbatches", plan.split.accumulation},
            {"microbatch", plan.split.microbatch},
            {"microbatch_is_automatic", plan.is_microbatch_automatic},
            {"idle_share_of_data_ranks", idle_share_of_data_ranks(config.data, plan)}}},
          {"recomputation", json_of_recomputation(plan)},
          {"steps", batches},
          {"tokens", batches * tokens},
          {"flops_per_token", flops_per_token(config.model, length)},
          {"causal_flops_per_token", causal_flops_per_token(config.model, length)},
          {"memory", json_of_memory(config.checkpoint, plan)},
          {"notes", notes_on_idle_ranks(config.data, config.execution, plan)}};
}

ordered_json json_of_step(std::vector<train::step_plan> const& plans) {
  auto out = ordered_json::array();
  for (auto const& plan : plans) {
    auto actions = ordered_json::array();
    for (auto const& action : plan.actions)
      actions.push_back({{"stream", name_of_lane(plan, action.lane)},
                         {"action", to_string(plan, action)},
                         {"after", action.dependencies}});
    out.push_back({{"pipeline_rank", plan.rank},
                   {"microbatches", plan.microbatches},
                   {"actions", std::move(actions)}});
  }
  return out;
}

}  // namespace mpt
