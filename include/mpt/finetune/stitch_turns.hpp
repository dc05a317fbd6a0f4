// The turns of a conversation as one example: which parts are trained on, where it is cut, and when
// it is no use.
//
// The rules are LLM Foundry's (llmfoundry/data/finetuning/collator.py and tasks.py): the last
// response ends with the end-of-text token; a part is trained on as a whole or not at all, by its
// role and place; what goes beyond max_seq_len is cut off at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <mpt/finetune/example.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// Which prompts and responses are trained on.
struct target_policy {
  enum class prompts { none, all, long_ones };
  prompts prompt = prompts::none;
  std::size_t least_prompt = 0;  ///< ids of a prompt that counts as a long one
  bool all_responses = false;    ///< else the last one only

  [[nodiscard]] bool takes_prompt(std::size_t ids) const;
  [[nodiscard]] bool takes_response(bool last) const { return last || all_responses; }
};

/// The policy of a loader's target_prompts ("none", "all", "length>=N") and target_responses
/// ("last", "all"), in any case. Error: anything else.
[[nodiscard]] target_policy read_target_policy(std::string_view prompts,
                                               std::string_view responses);

/// Ids of `turns` joined, with the end of text, before anything is cut.
[[nodiscard]] std::size_t length_of(std::span<turn const> turns, std::optional<std::int32_t> end);

/// The example of `turns`, cut to `max_seq_len`; nothing where there is nothing to train on: no
/// turn, a turn with an empty part, or no part that is trained on before the cut. `end` is the
/// end-of-text id, appended unless the last response has it; without one nothing is appended.
/// Cost: one pass over the ids.
[[nodiscard]] std::optional<example> stitch_turns(std::span<turn const> turns,
                                                  target_policy const& policy,
                                                  std::size_t max_seq_len,
                                                  std::optional<std::int32_t> end);

}  // namespace mpt::finetune
