// Documents out of text files: one a line of JSON lines, or pieces of plain text.
//
// By name, in any case, after a compression ending is taken off (.gz, .zst, .zstd): .json, .jsonl,
// .jsonlines and .ndjson are JSON lines (C4's layout); no ending at all after it ("00.zst") goes by
// the first byte, '{' means JSON lines; so is a file of any other name whose first line that is not
// blank is a JSON object with a "text" that is a string (some.jsonl.1). Everything else is plain
// text. Lines end at '\n' only: JSON strings may hold
// U+0085 or U+2028, which other line splitters take for ends. Blank lines are skipped.
//
// Plain text has no documents, so it is cut where a blank line follows at least
// `plain_text_bytes` (default 16 KiB); text without blank lines is cut after four times that, at a
// line end or else between UTF-8 characters. The pieces joined are the file, byte for byte, without
// a byte order mark in front. With document_options::whole_file it is one document.
//
// Memory: the longest document and a 256 KiB window, never the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/data/byte_stream.hpp>

namespace mpt::data {

enum class text_format { json_lines, plain };

struct document_options {
  static constexpr std::uint64_t whole_file = std::uint64_t{1} << 60;  ///< more than any file
  std::uint64_t plain_text_bytes = std::uint64_t{1} << 14;  ///< least size of a piece of plain text
  std::uint64_t max_line_bytes = std::uint64_t{1} << 28;    ///< longer JSON lines are an error
};

/// The "text" of one JSON row; errors name `file` and `line`, and the keys the row has.
[[nodiscard]] std::string text_of_row(std::string_view row, std::string_view file,
                                      std::uint64_t line);

class document_reader {
 public:
  explicit document_reader(std::filesystem::path const& path, document_options options = {});

  [[nodiscard]] text_format format() const { return format_; }
  [[nodiscard]] std::string const& name() const { return stream_.name(); }
  /// Line, counted from 1, on which the last document began.
  [[nodiscard]] std::uint64_t line() const { return document_line_; }
  /// Bytes of the (compressed) file read so far, for progress.
  [[nodiscard]] std::uint64_t consumed() const { return stream_.consumed(); }

  /// Puts the next document into `out`: a JSON row yet to be parsed by `text_of_row`, or plain
  /// text. Returns false at the end of the file.
  [[nodiscard]] bool next(std::string& out);

 private:
  static constexpr std::size_t longest_mark = 4;  ///< bytes of a byte order mark

  [[nodiscard]] bool refill();

  /// Whether the first line that is not blank is a row with a text, or, if that is enough, begins
  /// like a row. Reads ahead, no further than a row may be long.
  [[nodiscard]] bool begins_with_row(bool brace_is_enough);

  [[nodiscard]] static bool is_row_with_text(std::string_view row);

  /// Appends one line with its '\n', or at most `limit` bytes of it. False at the end of the file.
  [[nodiscard]] bool append_line(std::string& out, std::uint64_t limit);

  [[nodiscard]] bool next_row(std::string& out);

  [[nodiscard]] bool next_piece(std::string& out);

  /// Leaves whole lines, or at least whole characters, in `out`; the rest begins the next piece.
  void cut(std::string& out);

  document_options options_;
  byte_stream stream_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  text_format format_ = text_format::plain;
  std::uint64_t lines_ = 0;
  std::uint64_t document_line_ = 0;
  std::string pending_;
};

}  // namespace mpt::data
