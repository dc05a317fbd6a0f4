#include <mpt/tokenizer/stream_decoder.hpp>

#include <cstddef>

namespace mpt {

std::string stream_decoder::push(std::int32_t id) {
  if (special_ == special_tokens::skip && source_->is_special(id)) return {};
  waiting_ += source_->bytes_of(id);
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

}  // namespace mpt
