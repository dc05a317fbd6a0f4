#include <mpt/tokenizer/vocabulary.hpp>

#include <mpt/tokenizer/byte_level.hpp>
#include <mpt/tokenizer/metaspace.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {

vocabulary::outcome vocabulary::insert(std::string_view spelling, std::int32_t id) {
  auto const index = static_cast<std::size_t>(id);
  if (ids_.contains(spelling)) return outcome::spelling_known;
  if (index < tokens_.size() && tokens_[index].is_used) return outcome::id_taken;
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  ids_.emplace(spelling, id);
  tokens_[index] = {.spelling = std::string(spelling),
                    .bytes = decoding_.bytes_of(spelling),
                    .is_used = true,
                    .is_byte = decoding_.is_byte(spelling)};
  return outcome::added;
}

std::optional<std::int32_t> vocabulary::id_of(std::string_view spelling) const {
  auto const found = ids_.find(spelling);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

bool vocabulary::contains(std::int32_t id) const {
  return id >= 0 && id < size() && tokens_[static_cast<std::size_t>(id)].is_used;
}

std::string_view vocabulary::spelling(std::int32_t id) const {
  return tokens_[static_cast<std::size_t>(id)].spelling;
}

std::string_view vocabulary::bytes(std::int32_t id) const {
  return tokens_[static_cast<std::size_t>(id)].bytes;
}

bool vocabulary::is_byte(std::int32_t id) const {
  return tokens_[static_cast<std::size_t>(id)].is_byte;
}

std::size_t vocabulary::hash::operator()(std::string_view text) const {
  return std::hash<std::string_view>{}(text);
}

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
