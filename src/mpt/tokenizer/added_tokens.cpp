#include <mpt/tokenizer/added_tokens.hpp>

#include <mpt/tokenizer/character_class.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {
namespace {

/// The start of the character that ends in front of `position`, which is not the beginning of the
/// text.
[[nodiscard]] std::size_t start_of_character_before(std::string_view text, std::size_t position) {
  do --position;
  while (position > 0 && (static_cast<unsigned char>(text[position]) & 0xC0U) == 0x80U);
  return position;
}

}  // namespace

void added_token_matcher::insert(std::string_view spelling, std::int32_t id, match_rules rules) {
  if (spelling.empty()) return;
  std::size_t node_index = root;
  for (char const byte : spelling)
    node_index = child_or_new(node_index, static_cast<unsigned char>(byte));
  if (nodes_[node_index].id < 0) {
    nodes_[node_index].id = id;
    nodes_[node_index].rules = rules;
  }
  first_bytes_[static_cast<unsigned char>(spelling.front())] = true;
}

std::size_t added_token_matcher::child(std::size_t node_index, unsigned char byte) const {
  for (auto const& [label, next] : nodes_[node_index].children)
    if (label == byte) return next;
  return root;
}

std::size_t added_token_matcher::child_or_new(std::size_t node_index, unsigned char byte) {
  if (auto const next = child(node_index, byte); next != root) return next;
  nodes_[node_index].children.emplace_back(byte, static_cast<std::uint32_t>(nodes_.size()));
  nodes_.emplace_back();
  return nodes_.size() - 1;
}

added_token_matcher::match added_token_matcher::longest_at(std::string_view text,
                                                           std::size_t position) const {
  match best;
  if (!first_bytes_[static_cast<unsigned char>(text[position])]) return best;
  std::size_t node_index = root;
  for (auto end = position; end < text.size();) {
    node_index = child(node_index, static_cast<unsigned char>(text[end]));
    if (node_index == root) break;
    ++end;
    if (nodes_[node_index].id >= 0)
      best = {nodes_[node_index].id, end - position, nodes_[node_index].rules};
  }
  return best;
}

bool added_token_matcher::is_inside_word(std::string_view text, std::size_t begin,
                                         std::size_t end) {
  auto const is_word_at = [&](std::size_t position) {
    return is_word_character(utf8::read(text, position).code_point);
  };
  return (begin > 0 && is_word_at(start_of_character_before(text, begin))) ||
         (end < text.size() && is_word_at(end));
}

std::size_t added_token_matcher::white_space_before(std::string_view text, std::size_t position,
                                                    std::size_t first) {
  while (position > first) {
    auto const previous = start_of_character_before(text, position);
    if (!is_white_space(utf8::read(text, previous).code_point)) break;
    position = previous;
  }
  return position;
}

std::size_t added_token_matcher::white_space_after(std::string_view text, std::size_t position) {
  while (position < text.size()) {
    auto const next = utf8::read(text, position);
    if (!is_white_space(next.code_point)) break;
    position += next.bytes;
  }
  return position;
}

}  // namespace mpt
