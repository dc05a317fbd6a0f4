// Generation: texts are continued side by side, a token of each in one pass.
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
  std::vector<std::int32_t> end_tokens = {};  // each ends a text and is no part of it
  sampling_options sampling = {};
  /// The number of the first text among all that are made with this seed: each draws other numbers.
  std::uint64_t first = 0;
  history_options history = {};
  /// Called with the number of a text and each of its new ids; true ends the text behind it.
  std::function<bool(std::size_t text, std::int32_t id)> last = {};
};

/// Throws unless a prompt of so many tokens can be continued.
inline void check_prompt(std::size_t tokens, index longest, std::string_view place = {}) {
  require(tokens > 0, place, "the prompt has no tokens; give at least one word");
  require(static_cast<index>(tokens) < longest, place, "the prompt has ", tokens,
          " tokens, but the model reads at most ", longest - 1, " before a new one");
}

/// Continues prompts, at most as many as the model has room for, each until max_new_tokens, one of
/// end_tokens, options.last, the model's longest sequence, or its room. Returns the new
/// ids of each. A text does not depend on those beside it, but for the rounding of the products
/// that they share; each has a sampler of its own.
[[nodiscard]] inline std::vector<std::vector<std::int32_t>> generate(
    text_model& model, std::span<std::vector<std::int32_t> const> prompts,
    generation_options const& options) {
  struct text {
    sampler choose;
    token_history history;
    index wanted;
  };
  index const longest = std::min<index>(model.config().max_seq_len, model.room().tokens + 1);
  std::vector<text> texts;
  for (auto const& prompt : prompts) {
    check_prompt(prompt.size(), longest);
    auto sampling = options.sampling;
    sampling.seed += (options.first + texts.size()) * 0x9e3779b97f4a7c15ULL;  // Weyl's sequence
    texts.push_back(
        {sampler(sampling), token_history(options.history, prompt),
         std::min<index>(options.max_new_tokens, longest - static_cast<index>(prompt.size()))});
  }
  std::vector<std::vector<std::int32_t>> out(prompts.size());
  std::vector<std::size_t> running;
  std::vector<std::int32_t> next;
  /// Adds the next id of a text; it goes on unless that ends it.
  auto const choose = [&](std::size_t i, std::span<float> logits) {
    auto& one = texts[i];
    one.history.apply(logits);
    auto const id = one.choose.pick(logits);
    if (std::ranges::find(options.end_tokens, id) != options.end_tokens.end()) return;
    out[i].push_back(id);
    one.history.add(id);
    bool const ended = options.last && options.last(i, id);
    if (ended || static_cast<index>(out[i].size()) >= one.wanted) return;
    running.push_back(i);
    next.push_back(id);
  };
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    model.keep(i, 0);
    if (texts[i].wanted <= 0) continue;
    auto logits = model.read(i, prompts[i]);
    choose(i, logits);
  }
  while (!running.empty()) {
    auto logits = model.read_next(running, next);
    auto const vocabulary = logits.size() / running.size();
    auto const read = std::exchange(running, {});
    next.clear();
    for (std::size_t at = 0; at < read.size(); ++at)
      choose(read[at], std::span(logits).subspan(at * vocabulary, vocabulary));
  }
  return out;
}

}  // namespace mpt
