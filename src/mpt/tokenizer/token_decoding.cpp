#include <mpt/tokenizer/token_decoding.hpp>

#include <mpt/tokenizer/byte_level.hpp>
#include <mpt/tokenizer/metaspace.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {

std::string decoding_rules::bytes_of(std::string_view token) const {
  if (byte_level) return byte_level::read(token);
  if (is_byte(token)) return {static_cast<char>(*metaspace::byte_of(token))};
  return mark_is_space ? metaspace::read(token) : std::string(token);
}

bool decoding_rules::is_byte(std::string_view token) const {
  return !byte_level && has_byte_tokens && metaspace::byte_of(token).has_value();
}

std::string text_of_byte_tokens(std::string_view bytes) {
  if (utf8::is_valid(bytes)) return std::string(bytes);
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); ++i) out += utf8::replacement;
  return out;
}

}  // namespace mpt
