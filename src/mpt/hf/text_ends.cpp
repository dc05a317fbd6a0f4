#include <mpt/hf/text_ends.hpp>

#include <mpt/tokenizer/end_of_text.hpp>

namespace mpt {

text_ends text_ends_of(model_source const& source, tokenizer const& tokenizer) {
  text_ends out;
  auto const vocabulary = source.config().vocab_size;
  std::vector<std::int64_t> unknown_tokens;
  for (auto const id : source.end_tokens())
    if (id >= 0 && id < vocabulary)
      out.tokens.push_back(static_cast<std::int32_t>(id));
    else
      unknown_tokens.push_back(id);
  if (source.end_tokens().empty())
    if (auto const end = tokenizer.eos_id()) out.tokens.push_back(*end);
  if (!unknown_tokens.empty())
    out.note = concat(source.path().string(), ": eos_token_id ", unknown_tokens.front(),
                      " is none of the model's ", vocabulary, " tokens, so that it ends no text");
  else if (out.tokens.empty())
    out.note =
        concat("nothing ends a text before it is as long as allowed: ", source.path().string(),
               " names no eos_token_id, and ", tokenizer.files().name(),
               " has no end-of-text token (", why_without_end(tokenizer), ")");
  return out;
}

}  // namespace mpt
