// A plain or compressed text file, character by character, with the line it has come to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/data/byte_stream.hpp>

namespace mpt::finetune {

/// Reads a file in a window of 256 KiB; a byte order mark in front is skipped. Errors: those of
/// data::byte_stream and data::byte_order_mark.
class text_input {
 public:
  static constexpr int end = -1;

  explicit text_input(std::filesystem::path const& path);

  [[nodiscard]] std::string const& name() const { return stream_.name(); }
  /// The line of the next character, from 1.
  [[nodiscard]] std::uint64_t line() const { return line_; }

  /// The next byte, 0 to 255, or `end`.
  [[nodiscard]] int peek();
  int get();

 private:
  void fill();

  data::byte_stream stream_;
  std::vector<char> window_;
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::uint64_t line_ = 1;
};

}  // namespace mpt::finetune
