// Joins the turns of a conversation into one example: chooses the prompts and responses to train
// on, cuts the example to length and drops it when it has nothing to train on.
//
// The rules are LLM Foundry's (llmfoundry/data/finetuning/collator.py and tasks.py): the last
// response ends with the end-of-text token; a prompt or response is trained on as a whole or not at
// all, by its role and position; ids beyond max_seq_len are cut off.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <mpt/finetune/example.hpp>

namespace mpt::finetune {

/// Which prompts and responses are trained on.
struct target_policy {
  enum class prompts { none, all_prompts, long_prompts };
  prompts prompt = prompts::none;
  std::size_t min_prompt_ids = 0;  ///< length in ids from which a prompt is long
  bool all_responses = false;      ///< false: the last response only

  [[nodiscard]] bool trains_prompt(std::size_t ids) const;
  [[nodiscard]] bool trains_response(bool is_last) const { return is_last || all_responses; }
};

/// The policy of a loader's target_prompts ("none", "all", "length>=N") and target_responses
/// ("last", "all"), in any case. Error: anything else.
[[nodiscard]] target_policy read_target_policy(std::string_view prompts,
                                               std::string_view responses);

/// The number of ids of the joined `turns` with the end-of-text token, before anything is cut.
[[nodiscard]] std::size_t joined_length(std::span<turn const> turns,
                                        std::optional<std::int32_t> end);

/// The example of `turns`, cut to `max_seq_len`. Empty where there is nothing to train on: no turn,
/// a turn with an empty prompt or response, or no target before the cut. `end` is the end-of-text
/// id, appended unless the last response ends with it; without a value nothing is appended. Cost:
/// one pass over the ids.
[[nodiscard]] std::optional<example> stitch_turns(std::span<turn const> turns,
                                                  target_policy const& policy,
                                                  std::size_t max_seq_len,
                                                  std::optional<std::int32_t> end);

}  // namespace mpt::finetune
