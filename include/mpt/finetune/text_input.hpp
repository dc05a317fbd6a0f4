// A plain or compressed text file, character by character, with the line it has come to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/data/byte_order_mark.hpp>
#include <mpt/data/byte_stream.hpp>

namespace mpt::finetune {

/// Reads a file in a window of 256 KiB; a byte order mark in front is skipped. Errors: those of
/// data::byte_stream and data::byte_order_mark.
class text_input {
 public:
  static constexpr int end = -1;

  explicit text_input(std::filesystem::path const& path)
      : stream_(path, data::compression_of(path.native())), window_(std::size_t{1} << 18) {
    fill();
    at_ = data::byte_order_mark(std::string_view(window_.data(), size_), name());
  }

  [[nodiscard]] std::string const& name() const { return stream_.name(); }
  /// The line of the next character, from 1.
  [[nodiscard]] std::uint64_t line() const { return line_; }

  /// The next byte, 0 to 255, or `end`.
  [[nodiscard]] int peek() {
    if (at_ == size_) fill();
    return at_ == size_ ? end : static_cast<unsigned char>(window_[at_]);
  }
  int get() {
    int const next = peek();
    if (next == end) return end;
    ++at_;
    if (next == '\n') ++line_;
    return next;
  }

 private:
  void fill() {
    at_ = 0;
    size_ = stream_.read(window_.data(), window_.size());
  }

  data::byte_stream stream_;
  std::vector<char> window_;
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::uint64_t line_ = 1;
};

}  // namespace mpt::finetune
