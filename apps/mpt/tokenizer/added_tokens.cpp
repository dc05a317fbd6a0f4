#include <mpt/tokenizer/added_tokens.hpp>

#include <mpt/tokenizer/character_class.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {

void added_token_matcher::insert(std::string_view spelling, std::int32_t id, strip_options strip) {
  if (spelling.empty()) return;
  std::size_t at = root;
  for (char const byte : spelling) at = child_or_new(at, static_cast<unsigned char>(byte));
  if (nodes_[at].id < 0) {
    nodes_[at].id = id;
    nodes_[at].strip = strip;
  }
  first_bytes_[static_cast<unsigned char>(spelling.front())] = true;
}

std::size_t added_token_matcher::child(std::size_t at, unsigned char byte) const {
  for (auto const& [label, next] : nodes_[at].children)
    if (label == byte) return next;
  return root;
}

std::size_t added_token_matcher::child_or_new(std::size_t at, unsigned char byte) {
  if (auto const next = child(at, byte); next != root) return next;
  nodes_[at].children.emplace_back(byte, static_cast<std::uint32_t>(nodes_.size()));
  nodes_.emplace_back();
  return nodes_.size() - 1;
}

added_token_matcher::match added_token_matcher::longest_at(std::string_view text,
                                                           std::size_t place) const {
  match best;
  if (!first_bytes_[static_cast<unsigned char>(text[place])]) return best;
  std::size_t at = root;
  for (auto end = place; end < text.size();) {
    at = child(at, static_cast<unsigned char>(text[end]));
    if (at == root) break;
    ++end;
    if (nodes_[at].id >= 0) best = {nodes_[at].id, end - place, nodes_[at].strip};
  }
  return best;
}

std::size_t added_token_matcher::white_space_before(std::string_view text, std::size_t place,
                                                    std::size_t floor) {
  while (place > floor) {
    auto previous = place - 1;
    while (previous > 0 && (static_cast<unsigned char>(text[previous]) & 0xC0U) == 0x80U)
      --previous;
    if (!is_white_space(utf8::read(text, previous).code_point)) break;
    place = previous;
  }
  return place;
}

std::size_t added_token_matcher::white_space_after(std::string_view text, std::size_t place) {
  while (place < text.size()) {
    auto const next = utf8::read(text, place);
    if (!is_white_space(next.code_point)) break;
    place += next.bytes;
  }
  return place;
}

}  // namespace mpt
