// Reads a plain, gzip or zstd file as one stream of bytes, in bounded memory.
//
// Several gzip members or zstd frames in a row are one stream, as their command-line tools take
// them. A stream that ends in the middle, or is damaged, is an error naming the file and the byte
// reached: silently training on half a file is worse. So is one that grows as no text does: a few
// bytes can stand for terabytes. Memory: a 256 KiB input window, and the decoder's (32 KiB for
// gzip; at most 128 MiB for zstd).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>
#include <zstd.h>

#include <parallel/core/file.hpp>

namespace mpt::data {

/// How a file is compressed.
enum class compression { none, gzip, zstd };

/// An ending as it is compared: ".JSONL" is ".jsonl". Of ASCII letters alone.
[[nodiscard]] std::string lower_case(std::string_view text);

/// Whether a file with this ending, in small letters, holds JSON: lines, or one list.
[[nodiscard]] bool is_json_ending(std::string_view ending);

/// By the end of the name, in any case: ".gz", ".zst" or ".zstd", else none.
[[nodiscard]] compression compression_of(std::string_view whole_name);

/// Of texts and of ids: these are made 3 to 30 times smaller.
inline constexpr std::uint64_t largest_ratio = 200;

/// Whether `made` bytes of `packed` may be data: a few bytes can stand for terabytes, and a bomb
/// that becomes no more than 64 MiB does no harm.
[[nodiscard]] constexpr bool expands_as_data(std::uint64_t made, std::uint64_t packed) {
  return made <= std::uint64_t{1} << 26 || made / largest_ratio <= packed;
}

class byte_stream {
 public:
  byte_stream(std::filesystem::path path, compression kind);

  [[nodiscard]] std::string const& name() const { return file_.name(); }
  /// Bytes of the file consumed so far (compressed bytes).
  [[nodiscard]] std::uint64_t consumed() const { return read_ - (window_end_ - window_begin_); }
  [[nodiscard]] std::uint64_t file_size() const { return file_.size(); }

  /// Reads up to `count` > 0 bytes; 0 means the end of the stream, which was whole.
  [[nodiscard]] std::size_t read(char* out, std::size_t count);

 private:
  struct end_inflate {
    void operator()(::z_stream* stream) const;
  };
  struct free_context {
    void operator()(ZSTD_DCtx* context) const;
  };

  void refill();

  [[noreturn]] void damaged(std::string_view why) const;

  [[nodiscard]] std::size_t inflate(char* out, std::size_t count);

  [[nodiscard]] std::size_t decompress(char* out, std::size_t count);

  parallel::input_file file_;
  compression kind_;
  std::vector<char> window_;
  std::size_t window_begin_ = 0;
  std::size_t window_end_ = 0;
  std::uint64_t read_ = 0;  // bytes of the file
  std::uint64_t made_ = 0;  // bytes decompressed
  bool between_frames_ = true;
  std::unique_ptr<::z_stream, end_inflate> gzip_;
  std::unique_ptr<ZSTD_DCtx, free_context> zstd_;
};

}  // namespace mpt::data
