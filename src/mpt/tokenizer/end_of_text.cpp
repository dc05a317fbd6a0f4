#include <mpt/tokenizer/end_of_text.hpp>

namespace mpt {

std::string why_without_end(tokenizer const& tokenizer) {
  auto const named = named_token(tokenizer.files(), "eos_token");
  if (!named) return "tokenizer_config.json names no eos_token";
  return parallel::concat("its eos_token '", named->substr(0, 60), "' is not in tokenizer.json");
}

std::int32_t require_end(tokenizer const& tokenizer, std::string_view need) {
  auto const id = tokenizer.eos_id();
  parallel::require(id.has_value(), tokenizer.files().name(), ": has no end-of-text token (",
                    id ? "" : why_without_end(tokenizer), "): ", need,
                    "; name one of its tokens as \"eos_token\" in the tokenizer_config.json beside "
                    "it");
  return id.value_or(0);
}

}  // namespace mpt
