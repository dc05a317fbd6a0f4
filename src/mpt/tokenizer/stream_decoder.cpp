#include <mpt/tokenizer/stream_decoder.hpp>

#include <utility>

#include <mpt/tokenizer/utf8.hpp>
#include <mpt/tokenizer/vocabulary.hpp>

namespace mpt {

stream_decoder::stream_decoder(tokenizer const& source, special_tokens special,
                               text_position position)
    : source_(&source),
      special_(special),
      spaces_to_strip_(position == text_position::beginning ? source.decoding().stripped_spaces
                                                            : 0) {}

std::string stream_decoder::push(std::int32_t id) {
  auto const bytes = source_->bytes_of(id);
  if (special_ == special_tokens::skip && source_->is_special(id)) return {};
  if (source_->decoding().byte_level) {
    waiting_ += bytes;
    return take_characters();
  }
  if (source_->is_byte(id)) {
    waiting_ += bytes;
    return {};
  }
  return without_prefix(take_byte_tokens().append(bytes));
}

std::string stream_decoder::finish() {
  auto out = source_->decoding().byte_level ? utf8::lossy(std::exchange(waiting_, {}))
                                            : without_prefix(take_byte_tokens());
  spaces_to_strip_ = source_->decoding().stripped_spaces;
  return out;
}

std::string stream_decoder::take_characters() {
  std::string out;
  std::size_t position = 0;
  while (position < waiting_.size()) {
    auto const next = utf8::read(waiting_, position);
    if (next.state == utf8::status::incomplete) break;
    if (next.state == utf8::status::valid)
      out.append(waiting_, position, next.bytes);
    else
      out += utf8::replacement;
    position += next.bytes;
  }
  waiting_.erase(0, position);
  return out;
}

std::string stream_decoder::take_byte_tokens() {
  return text_of_byte_tokens(std::exchange(waiting_, {}));
}

std::string stream_decoder::without_prefix(std::string text) {
  while (spaces_to_strip_ > 0 && text.starts_with(' ')) {
    text.erase(0, 1);
    --spaces_to_strip_;
  }
  if (!text.empty()) spaces_to_strip_ = 0;
  return text;
}

}  // namespace mpt
