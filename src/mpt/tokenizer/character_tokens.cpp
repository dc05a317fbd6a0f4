#include <mpt/tokenizer/character_tokens.hpp>

#include <cstddef>

#include <mpt/tokenizer/byte_level.hpp>
#include <mpt/tokenizer/metaspace.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {

character_tokens::character_tokens(vocabulary const& model, unknown_rules unknown)
    : common_ids_(table_size, -1), bytes_(256, -1), unknown_(unknown) {
  for (std::int32_t id = 0; id < model.size(); ++id) {
    if (!model.contains(id)) continue;
    auto const spelling = model.spelling(id);
    auto const first = utf8::read(spelling, 0);
    if (first.state != utf8::status::valid || first.bytes != spelling.size()) continue;
    if (first.code_point < table_size)
      common_ids_[first.code_point] = id;
    else
      rare_ids_.emplace(first.code_point, id);
  }
  for (std::size_t byte = 0; byte < 256; ++byte)
    bytes_[byte] =
        model.id_of(metaspace::byte_token(static_cast<unsigned char>(byte))).value_or(-1);
}

void character_tokens::append(std::string_view word, std::vector<std::int32_t>& ids) const {
  // An unknown token is appended late, in front of the next token of a character: the reference
  // puts bytes that follow an unknown character in front of its token.
  bool is_unknown_due = false;
  auto const append_unknown = [&] {
    if (is_unknown_due) ids.push_back(unknown_.id);
    is_unknown_due = false;
  };
  for (std::size_t position = 0; position < word.size();) {
    auto const next = utf8::read(word, position);
    auto const character = word.substr(position, next.bytes);
    position += next.bytes;
    if (auto const id = find(next.code_point); id >= 0) {
      append_unknown();
      ids.push_back(id);
    } else if (!append_bytes(character, ids) && unknown_.id >= 0) {
      if (!unknown_.fuse) append_unknown();
      is_unknown_due = true;
    }
  }
  append_unknown();
}

bool character_tokens::has_all_bytes() const {
  for (std::size_t byte = 0; byte < bytes_.size(); ++byte)
    if (byte_level::occurs_in_utf8(byte) && bytes_[byte] < 0) return false;
  return unknown_.use_bytes && !bytes_.empty();
}

std::int32_t character_tokens::find(char32_t c) const {
  if (c < table_size) return common_ids_[c];
  auto const found = rare_ids_.find(c);
  return found == rare_ids_.end() ? -1 : found->second;
}

bool character_tokens::append_bytes(std::string_view character,
                                    std::vector<std::int32_t>& ids) const {
  if (!unknown_.use_bytes) return false;
  auto const id_of = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
  for (char const byte : character)
    if (id_of(byte) < 0) return false;
  for (char const byte : character) ids.push_back(id_of(byte));
  return true;
}

}  // namespace mpt
