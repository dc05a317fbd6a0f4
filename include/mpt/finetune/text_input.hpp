// Reads a plain or compressed text file byte by byte and counts its lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/data/byte_stream.hpp>

namespace mpt::finetune {

/// Reads a file through a window of 256 KiB and skips a byte order mark at its beginning. Errors:
/// those of data::byte_stream and data::byte_order_mark.
class text_input {
 public:
  static constexpr int end = -1;

  explicit text_input(std::filesystem::path const& path);

  [[nodiscard]] std::string const& name() const { return stream_.name(); }
  /// The line of the next byte, from 1.
  [[nodiscard]] std::uint64_t line() const { return line_; }

  /// The next byte, 0 to 255, or `end`; only get() advances.
  [[nodiscard]] int peek();
  int get();

 private:
  void fill();

  data::byte_stream stream_;
  std::vector<char> window_;
  std::size_t position_ = 0;
  std::size_t window_bytes_ = 0;
  std::uint64_t line_ = 1;
};

}  // namespace mpt::finetune
