#include <mpt/config/run/read_parallelism.hpp>

#include <array>
#include <string>
#include <utility>

#include <mpt/yaml/reader.hpp>

namespace mpt {
namespace {

/// Reads the number of stages of each pipeline rank in this schedule.
[[nodiscard]] int read_stages_per_rank(config_reader& reader, std::string_view schedule) {
  auto const requested = reader.optional<std::int64_t>("stages_per_rank");
  if (schedule == "interleaved")
    return detail::check_degree(reader, "stages_per_rank", requested.value_or(2));
  int const fixed_count = schedule == "zb-v" || schedule == "dual-pipe-v" ? 2 : 1;
  reader.check("stages_per_rank", requested.value_or(fixed_count) == fixed_count, "schedule ",
               schedule, " has ", fixed_count, ", found ", requested.value_or(fixed_count),
               "; leave it out, or use schedule interleaved");
  return fixed_count;
}

/// LLM Foundry's name of parallelism.expert; 1 where the model has no experts.
[[nodiscard]] int read_expert_degree(config_reader const& parent, bool is_replaced) {
  constexpr char const* key = "moe_world_size";
  auto experts = parent.members("model").members("ffn_config");
  if (!experts.has_key(key)) return 1;
  if (is_replaced) experts.report_without_effect(key, "parallelism.expert decides");
  return detail::check_degree(experts, key, experts.get<std::int64_t>(key, 1));
}

}  // namespace

}  // namespace mpt

namespace mpt::detail {

int check_degree(config_reader const& reader, std::string_view key, std::int64_t degree) {
  constexpr std::int64_t largest_degree = 4096;
  reader.check(key, degree >= 1 && degree <= largest_degree, "must be from 1 to ", largest_degree,
               ", found ", degree);
  return static_cast<int>(degree);
}

int read_tensor_degree(config_reader reader) {
  bool const is_written = reader.has_key("tensor_parallel_degree");
  int const degree = check_degree(reader, "tensor_parallel_degree",
                                  reader.get<std::int64_t>("tensor_parallel_degree", 1));
  auto const strategy = reader.get<std::string>("strategy", "ffn");
  reader.check("strategy", strategy == "ffn", "'", printable(strategy),
               "' is not known; there is ffn");
  if (is_written && degree > 1)
    reader.report().notes.emplace_back(
        "tp_config.strategy ffn: attention, embedding and head are divided among the tensor ranks "
        "too; the results are the same");
  reader.finish();
  return degree;
}

parallelism_config read_parallelism(config_reader& parent, parallelism_config out) {
  using method = parallel::context_parallel::method;
  constexpr std::array<std::pair<std::string_view, method>, 2> methods{
      {{"ring", method::ring}, {"ulysses", method::ulysses}}};
  out.tensor = read_tensor_degree(parent.section("tp_config"));
  auto reader = parent.section("parallelism");
  auto const degree = [&](std::string_view key, int fallback) {
    return check_degree(reader, key, reader.get<std::int64_t>(key, fallback));
  };
  out.tensor = degree("tensor", out.tensor);
  out.sequence_parallel = reader.get("sequence_parallel", out.sequence_parallel);
  out.context = degree("context", out.context);
  out.context_method =
      read_name(reader, "context_method", "ring", methods, "a way to attend over ranks");
  out.expert = degree("expert", read_expert_degree(parent, reader.has_key("expert")));
  out.expert_buffer = reader.get("expert_buffer", out.expert_buffer);
  reader.check("expert_buffer", out.expert_buffer == 0 || out.expert_buffer >= 1,
               "is a number of equal shares, at least 1, or 0 for any routing, found ",
               out.expert_buffer);
  if (out.expert == 1)
    reader.report_without_effect("expert_buffer", "belongs to expert, which is 1");
  out.pipeline = degree("pipeline", out.pipeline);
  out.schedule = reader.one_of("schedule", out.schedule,
                               {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"});
  out.stages_per_rank = read_stages_per_rank(reader, out.schedule);
  if (config_node const* const list = reader.raw("blocks_by_stage")) {
    reader.check("blocks_by_stage", list->is_list(), "expected a list, found ", describe(*list));
    for (config_node const& item : list->items) {
      std::int64_t const count =
          item.is_scalar() ? parse_integer(item.text).value_or(0) : std::int64_t{0};
      parallel::require(count >= 1 && count <= (1 << 20), item.location,
                        ": parallelism.blocks_by_stage: expected a number of blocks above 0, "
                        "found ",
                        describe(item));
      out.blocks_by_stage.push_back(static_cast<int>(count));
    }
  }
  out.overlap_weight_gradients =
      reader.get("overlap_weight_gradients", out.overlap_weight_gradients);
  if (out.tensor == 1)
    reader.report_without_effect("sequence_parallel", "belongs to tensor, which is 1");
  if (out.context == 1)
    reader.report_without_effect("context_method", "belongs to context, which is 1");
  if (out.pipeline == 1)
    reader.report_all_without_effect({"schedule", "stages_per_rank", "blocks_by_stage"},
                                     "belongs to pipeline, which is 1");
  for (auto const& [key, field] : {std::pair{"shard", &out.shard}, {"replicate", &out.replicate}})
    if (auto const requested = reader.optional<std::int64_t>(key))
      *field = check_degree(reader, key, *requested);
  auto fsdp = parent.members("fsdp_config");
  for (auto const& [key, fsdp_key] : {std::pair{"shard", "data_parallel_shard_degree"},
                                      std::pair{"replicate", "data_parallel_replicate_degree"}})
    if (reader.has_key(key))
      fsdp.report_without_effect(fsdp_key, parallel::concat(reader.full_name(key), " decides"));
  if (reader.has_key("tensor"))
    parent.members("tp_config")
        .report_without_effect("tensor_parallel_degree", "parallelism.tensor decides");
  reader.finish();
  return out;
}

}  // namespace mpt::detail
