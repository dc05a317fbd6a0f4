// Generation: prompts are continued together, by one token of each text in a forward pass.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/generate/history.hpp>
#include <mpt/generate/sampler.hpp>
#include <mpt/generate/text_model.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

struct generation_options {
  std::int64_t max_new_tokens = 100;
  std::vector<std::int32_t> end_tokens = {};  // each ends a text and is not part of it
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
inline void check_prompt(std::size_t tokens, index longest, std::string_view location = {}) {
  require(tokens > 0, location, "the prompt has no tokens; give at least one word");
  require(static_cast<index>(tokens) < longest, location, "the prompt has ", tokens,
          " tokens, but the model reads at most ", longest - 1, " before a new one");
}

/// Continues prompts, at most as many as the model has room for, and returns the new ids of each.
/// A text ends by max_new_tokens, by one of end_tokens, by options.ends_text, at the model's
/// longest sequence, or at the decoder's room. Each text has its own sampler and does not depend on
/// the other texts, but for the rounding of matrix products that they share.
[[nodiscard]] inline std::vector<std::vector<std::int32_t>> generate(
    text_model& model, std::span<std::vector<std::int32_t> const> prompts,
    generation_options const& options) {
  struct text {
    sampler sampling;
    token_history history;
    index max_tokens;
  };
  index const longest = std::min<index>(model.config().max_seq_len, model.room().tokens + 1);
  std::vector<text> texts;
  for (auto const& prompt : prompts) {
    check_prompt(prompt.size(), longest);
    auto sampling = options.sampling;
    sampling.seed +=
        (options.first_text + texts.size()) * 0x9e3779b97f4a7c15ULL;  // Weyl's sequence
    texts.push_back(
        {sampler(sampling), token_history(options.history, prompt),
         std::min<index>(options.max_new_tokens, longest - static_cast<index>(prompt.size()))});
  }
  std::vector<std::vector<std::int32_t>> out(prompts.size());
  std::vector<std::size_t> running;
  std::vector<std::int32_t> next;
  /// Samples and adds the next id of a text; the text stays in `running` unless this id ends it.
  auto const add_next = [&](std::size_t number, std::span<float> logits) {
    auto& current = texts[number];
    current.history.apply(logits);
    auto const id = current.sampling.pick(logits);
    if (std::ranges::find(options.end_tokens, id) != options.end_tokens.end()) return;
    out[number].push_back(id);
    current.history.add(id);
    bool const ended = options.ends_text && options.ends_text(number, id);
    if (ended || static_cast<index>(out[number].size()) >= current.max_tokens) return;
    running.push_back(number);
    next.push_back(id);
  };
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    model.truncate(i, 0);
    if (texts[i].max_tokens <= 0) continue;
    auto logits = model.read(i, prompts[i]);
    add_next(i, logits);
  }
  while (!running.empty()) {
    auto logits = model.read_next(running, next);
    auto const vocabulary = logits.size() / running.size();
    auto const read = std::exchange(running, {});
    next.clear();
    for (std::size_t row = 0; row < read.size(); ++row)
      add_next(read[row], std::span(logits).subspan(row * vocabulary, vocabulary));
  }
  return out;
}

}  // namespace mpt
