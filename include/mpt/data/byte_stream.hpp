// Reads a plain, gzip or zstd file as one stream of bytes, in bounded memory.
//
// Several gzip members or zstd frames in a row are one stream, as for their command-line tools. A
// stream that ends in the middle, or is damaged, is an error that names the file and the byte
// reached: silently training on half a file would be worse. A stream that grows more than any text
// does is an error, too: a few bytes can expand to terabytes. Memory: an input window of 256 KiB
// and the decoder's window (32 KiB for gzip; at most 128 MiB for zstd).
//
// The byte order mark that some programs, mostly on Windows, write in front of text: it says how
// the text is encoded and is not part of the text.
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

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt::data {

/// How a file is compressed.
enum class compression { none, gzip, zstd };

/// Whether a file with this ending (in small letters) holds JSON: either lines or one list.
[[nodiscard]] bool is_json_ending(std::string_view ending);

/// The compression that the end of the file name says, in any case: ".gz", ".zst", ".zstd" or none.
[[nodiscard]] compression compression_of(std::string_view whole_name);

/// Files that expand by more than this factor are refused. Compression makes texts and ids 3 to 30
/// times smaller.
inline constexpr std::uint64_t max_expansion_ratio = 200;

/// Whether `compressed` bytes of text or ids may have become `decompressed` bytes: a few bytes can
/// expand to terabytes ("decompression bomb"). Up to 64 MiB, which do no harm, the answer is yes.
[[nodiscard]] constexpr bool is_plausible_expansion(std::uint64_t decompressed,
                                                    std::uint64_t compressed) {
  return decompressed <= std::uint64_t{1} << 26 || decompressed / max_expansion_ratio <= compressed;
}

class byte_stream {
 public:
  byte_stream(std::filesystem::path path, compression kind);

  [[nodiscard]] std::string const& name() const { return file_.name(); }
  /// Bytes of the file consumed so far (compressed bytes).
  [[nodiscard]] std::uint64_t consumed() const {
    return read_bytes_ - (window_end_ - window_begin_);
  }
  [[nodiscard]] std::uint64_t file_size() const { return file_.size(); }

  /// Reads up to `count` > 0 bytes and returns how many; 0 is the end of a complete stream.
  [[nodiscard]] std::size_t read(char* out, std::size_t count);

 private:
  struct inflate_deleter {
    void operator()(::z_stream* stream) const;
  };
  struct context_deleter {
    void operator()(ZSTD_DCtx* context) const;
  };

  void refill();

  [[noreturn]] void fail_damaged(std::string_view reason) const;

  [[nodiscard]] std::size_t inflate(char* out, std::size_t count);

  [[nodiscard]] std::size_t decompress(char* out, std::size_t count);

  parallel::input_file file_;
  compression compression_;
  std::vector<char> window_;
  std::size_t window_begin_ = 0;
  std::size_t window_end_ = 0;
  std::uint64_t read_bytes_ = 0;          // bytes of the file
  std::uint64_t decompressed_bytes_ = 0;  // bytes decompressed
  bool is_between_frames_ = true;
  std::unique_ptr<::z_stream, inflate_deleter> gzip_;
  std::unique_ptr<ZSTD_DCtx, context_deleter> zstd_;
};

/// The size in bytes of the mark at the start of `text`: 3 for UTF-8, or 0 without a mark. Throws,
/// naming the text `name`, for the mark of an encoding other than UTF-8.
[[nodiscard]] std::size_t byte_order_mark(std::string_view text, std::string_view name);

}  // namespace mpt::data
