#include <mpt/finetune/stitch_turns.hpp>

#include <algorithm>
#include <charconv>
#include <system_error>

#include <mpt/ascii.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

bool target_policy::trains_prompt(std::size_t ids) const {
  return prompt == prompts::all_prompts ||
         (prompt == prompts::long_prompts && ids >= min_prompt_ids);
}

target_policy read_target_policy(std::string_view prompts, std::string_view responses) {
  target_policy policy;
  auto const lower_prompts = lower_case(prompts);
  constexpr std::string_view length_prefix = "length>=";
  if (lower_prompts.starts_with(length_prefix)) {
    auto const* const end = lower_prompts.data() + lower_prompts.size();
    auto const read =
        std::from_chars(lower_prompts.data() + length_prefix.size(), end, policy.min_prompt_ids);
    parallel::require(read.ec == std::errc{} && read.ptr == end && policy.min_prompt_ids > 0,
                      "target_prompts is \"", prompts,
                      "\"; after \"length>=\" a whole number above 0 is expected");
    policy.prompt = target_policy::prompts::long_prompts;
  } else {
    parallel::require(lower_prompts == "none" || lower_prompts == "all", "target_prompts is \"",
                      prompts,
                      "\"; expected none, all or length>=N (prompts of at least N tokens)");
    if (lower_prompts == "all") policy.prompt = target_policy::prompts::all_prompts;
  }
  auto const lower_responses = lower_case(responses);
  parallel::require(lower_responses == "last" || lower_responses == "all", "target_responses is \"",
                    responses, "\"; expected last or all");
  policy.all_responses = lower_responses == "all";
  return policy;
}

std::size_t joined_length(std::span<turn const> turns, std::optional<std::int32_t> end) {
  std::size_t length = 0;
  for (auto const& turn : turns) length += turn.prompt.size() + turn.response.size();
  bool const has_end =
      turns.empty() || turns.back().response.empty() || turns.back().response.back() == end;
  return length + (end && !has_end ? 1 : 0);
}

std::optional<example> stitch_turns(std::span<turn const> turns, target_policy const& policy,
                                    std::size_t max_seq_len, std::optional<std::int32_t> end) {
  example out;
  auto& ids = out.ids;
  auto& labels = out.labels;
  // As in LLM Foundry, the appended end-of-text token alone does not count as a target.
  bool has_target = false;
  auto const append = [&](std::span<std::int32_t const> part, bool is_target) {
    has_target |= is_target && ids.size() < max_seq_len;
    ids.insert(ids.end(), part.begin(), part.end());
    if (is_target)
      labels.insert(labels.end(), part.begin(), part.end());
    else
      labels.resize(ids.size(), no_label);
  };
  for (auto const& turn : turns) {
    if (turn.prompt.empty() || turn.response.empty()) return std::nullopt;
    bool const is_last = &turn == &turns.back();
    append(turn.prompt, policy.trains_prompt(turn.prompt.size()));
    append(turn.response, policy.trains_response(is_last));
    if (is_last && end && turn.response.back() != *end) {
      ids.push_back(*end);
      labels.push_back(*end);
    }
  }
  if (!has_target) return std::nullopt;
  ids.resize(std::min(ids.size(), max_seq_len));
  labels.resize(ids.size());
  // From labels of the ids themselves to labels of the positions that predict these ids.
  std::shift_left(labels.begin(), labels.end(), 1);
  labels.back() = no_label;
  return out;
}

}  // namespace mpt::finetune
