// Generation: prompts are continued together, by one token of each text in a forward pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <mpt/generate/sampler.hpp>
#include <mpt/generate/text_model.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// How long texts become, how tokens are chosen, and what ends a text.
struct generation_options {
  std::int64_t max_new_tokens = 100;
  std::vector<std::int32_t> end_tokens = {};  ///< each ends a text and is not part of it
  sampling_options sampling = {};
  /// The number of the first prompt's text among all texts that are generated with this seed. The
  /// random numbers of a text depend on its number.
  std::uint64_t first_text = 0;
  history_options history = {};
  /// Called with a prompt's index and each new id of its text; the text ends after this id when
  /// the function returns true.
  std::function<bool(std::size_t text, std::int32_t id)> ends_text = {};
};

/// Throws unless a prompt of `tokens` tokens can be continued. `location`: prefix of the error.
void check_prompt(std::size_t tokens, index longest, std::string_view location = {});

/// The most tokens of a prompt and its continuation, of which the model reads at most `longest`.
/// Any max_new_tokens is allowed, so that the sum of the first two may not be one.
[[nodiscard]] constexpr index longest_text(index prompt_tokens, std::int64_t max_new_tokens,
                                           index longest) {
  return prompt_tokens + std::min<index>(max_new_tokens, longest - prompt_tokens);
}

/// Continues prompts, at most as many as the model has room for, and returns the new ids of each.
/// A text ends by max_new_tokens, by one of end_tokens, by options.ends_text, at the model's
/// longest sequence, or at the decoder's room. Each text has its own sampler and does not depend on
/// the other texts, but for the rounding of matrix products that they share.
[[nodiscard]] std::vector<std::vector<std::int32_t>> generate(
    text_model& model, std::span<std::vector<std::int32_t> const> prompts,
    generation_options const& options);

}  // namespace mpt
