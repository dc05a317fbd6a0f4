#include <mpt/finetune/stitch_turns.hpp>

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

namespace mpt::finetune {

bool target_policy::takes_prompt(std::size_t ids) const {
  return prompt == prompts::all || (prompt == prompts::long_ones && ids >= least_prompt);
}

target_policy read_target_policy(std::string_view prompts, std::string_view responses) {
  auto const lower = [](std::string_view text) {
    std::string out(text);
    for (char& c : out)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
  };
  target_policy out;
  auto const given = lower(prompts);
  constexpr std::string_view least = "length>=";
  if (given.starts_with(least)) {
    auto const* const end = given.data() + given.size();
    auto const read = std::from_chars(given.data() + least.size(), end, out.least_prompt);
    parallel::require(read.ec == std::errc{} && read.ptr == end && out.least_prompt > 0,
                      "target_prompts is \"", prompts,
                      "\"; after \"length>=\" a whole number above 0 is expected");
    out.prompt = target_policy::prompts::long_ones;
  } else {
    parallel::require(given == "none" || given == "all", "target_prompts is \"", prompts,
                      "\"; expected none, all or length>=N (prompts of at least N tokens)");
    if (given == "all") out.prompt = target_policy::prompts::all;
  }
  auto const which = lower(responses);
  parallel::require(which == "last" || which == "all", "target_responses is \"", responses,
                    "\"; expected last or all");
  out.all_responses = which == "all";
  return out;
}

std::size_t length_of(std::span<turn const> turns, std::optional<std::int32_t> end) {
  std::size_t out = 0;
  for (auto const& one : turns) out += one.prompt.size() + one.response.size();
  bool const ended =
      turns.empty() || turns.back().response.empty() || turns.back().response.back() == end;
  return out + (end && !ended ? 1 : 0);
}

std::optional<example> stitch_turns(std::span<turn const> turns, target_policy const& policy,
                                    std::size_t max_seq_len, std::optional<std::int32_t> end) {
  example out;
  auto& ids = out.ids;
  auto& labels = out.labels;
  // As the reference does, whether anything is trained on is asked before the end is appended.
  bool trained = false;
  auto const append = [&](std::span<std::int32_t const> part, bool target) {
    trained |= target && ids.size() < max_seq_len;
    ids.insert(ids.end(), part.begin(), part.end());
    if (target)
      labels.insert(labels.end(), part.begin(), part.end());
    else
      labels.resize(ids.size(), no_label);
  };
  for (auto const& turn : turns) {
    if (turn.prompt.empty() || turn.response.empty()) return std::nullopt;
    bool const last = &turn == &turns.back();
    append(turn.prompt, policy.takes_prompt(turn.prompt.size()));
    append(turn.response, policy.takes_response(last));
    if (last && end && turn.response.back() != *end) {
      ids.push_back(*end);
      labels.push_back(*end);
    }
  }
  if (!trained) return std::nullopt;
  ids.resize(std::min(ids.size(), max_seq_len));
  labels.resize(ids.size());
  // from "the id here is trained on" to "the id that this position predicts"
  std::shift_left(labels.begin(), labels.end(), 1);
  labels.back() = no_label;
  return out;
}

}  // namespace mpt::finetune
