#include <mpt/generate/generate.hpp>

#include <algorithm>
#include <utility>

namespace mpt {

void check_prompt(std::size_t tokens, index longest, std::string_view location) {
  require(tokens > 0, location, "the prompt has no tokens; give at least one word");
  require(static_cast<index>(tokens) < longest, location, "the prompt has ", tokens,
          " tokens, but the model reads at most ", longest - 1, " before a new one");
}

std::vector<std::vector<std::int32_t>> generate(text_model& model,
                                                std::span<std::vector<std::int32_t> const> prompts,
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
