#include <mpt/finetune/text_input.hpp>

#include <string_view>

#include <mpt/data/byte_stream.hpp>

namespace mpt::finetune {

text_input::text_input(std::filesystem::path const& path)
    : stream_(path, data::compression_of(path.native())), window_(std::size_t{1} << 18) {
  fill();
  position_ = data::byte_order_mark(std::string_view(window_.data(), window_bytes_), name());
}

int text_input::peek() {
  if (position_ == window_bytes_) fill();
  return position_ == window_bytes_ ? end : static_cast<unsigned char>(window_[position_]);
}

int text_input::get() {
  int const next = peek();
  if (next == end) return end;
  ++position_;
  if (next == '\n') ++line_;
  return next;
}

void text_input::fill() {
  position_ = 0;
  window_bytes_ = stream_.read(window_.data(), window_.size());
}

}  // namespace mpt::finetune
