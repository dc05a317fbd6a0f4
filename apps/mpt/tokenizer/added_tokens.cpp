#include <mpt/tokenizer/added_tokens.hpp>

#include <mpt/tokenizer/character_class.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {

void added_token_matcher::insert(std::string_view spelling, std::int32_t id, strip_options strip) {
  if (spelling.empty()) return;
  std::size_t node_index = root;
  for (char const byte : spelling)
    node_index = child_or_new(node_index, static_cast<unsigned char>(byte));
  if (nodes_[node_index].id < 0) {
    nodes_[node_index].id = id;
    nodes_[node_index].strip = strip;
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
      best = {nodes_[node_index].id, end - position, nodes_[node_index].strip};
  }
  return best;
}

std::size_t added_token_matcher::white_space_before(std::string_view text, std::size_t position,
                                                    std::size_t floor) {
  while (position > floor) {
    auto previous = position - 1;
    while (previous > 0 && (static_cast<unsigned char>(text[previous]) & 0xC0U) == 0x80U)
      --previous;
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
