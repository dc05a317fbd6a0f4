// Reads documents from text files: one document per line of JSON lines or row of Parquet, or pieces
// of plain text.
//
// The format follows from the name, in any case and without a compression ending (.gz, .zst,
// .zstd): .json, .jsonl, .jsonlines and .ndjson are JSON lines (C4's layout). A compressed file
// without another ending ("00.zst") is JSON lines if its first byte is '{'. A file of any other
// name (some.jsonl.1) is JSON lines if its first line that is not blank is a JSON object whose
// "text" is a string. A .parquet file has its documents in the column "text". Everything else is
// plain text. Lines end at '\n' only: JSON strings may hold
// U+0085 or U+2028, which other line splitters take for line ends. Blank lines are skipped.
//
// Plain text has no documents, so it is cut where a blank line follows at least
// `plain_text_bytes` (default 16 KiB); text without blank lines is cut after four times that, at a
// line end or else between UTF-8 characters. The pieces together are the file, byte for byte,
// without its byte order mark. With document_options::whole_file the file is one document.
//
// Memory: the longest document and a 256 KiB window, never the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/data/byte_stream.hpp>

namespace mpt::data {

/// The forms of text files.
enum class text_format { json_lines, parquet, plain };

/// The error message for a Parquet file in a build without Arrow's C++ library.
inline constexpr std::string_view parquet_advice =
    "Parquet is read where Arrow's C++ library was found when this was built; convert it: python3 "
    "-c \"import pandas; pandas.read_parquet('IN.parquet').to_json('OUT.jsonl', orient='records', "
    "lines=True)\"";

/// Whether the name of a file ends as those of Parquet files do.
[[nodiscard]] bool is_parquet(std::filesystem::path const& file);

/// Stores the next text of a file in its argument; returns false when there is none.
using text_source = std::function<bool(std::string& text)>;

/// How files are read as documents.
struct document_options {
  static constexpr std::uint64_t whole_file = std::uint64_t{1} << 60;  ///< larger than any file
  std::uint64_t plain_text_bytes = std::uint64_t{1}
                                   << 14;                 ///< minimum size of a piece of plain text
  std::uint64_t max_line_bytes = std::uint64_t{1} << 28;  ///< longer JSON lines are an error
  /// Opens a Parquet file, whose column "text" it reads; without it such files are an error.
  std::function<text_source(std::filesystem::path const&)> open_parquet{};
};

/// The "text" of one JSON row; errors name `file`, `line` and the keys of the row.
[[nodiscard]] std::string text_of_row(std::string_view row, std::string_view file,
                                      std::uint64_t line);

class document_reader {
 public:
  explicit document_reader(std::filesystem::path const& path, document_options options = {});

  [[nodiscard]] text_format format() const { return format_; }
  [[nodiscard]] std::string const& name() const { return stream_.name(); }
  /// The line, or row of a Parquet file, counted from 1, on which the last document began.
  [[nodiscard]] std::uint64_t line() const { return document_line_; }
  /// Bytes of the (compressed) file read so far, for progress.
  [[nodiscard]] std::uint64_t consumed() const { return stream_.consumed(); }

  /// Stores the next document in `out`: a JSON row to be parsed by `text_of_row`, or the text.
  /// Returns false at the end of the file.
  [[nodiscard]] bool next(std::string& out);

 private:
  static constexpr std::size_t max_mark_bytes = 4;  ///< bytes of a byte order mark

  [[nodiscard]] bool refill();

  /// Whether the first line that is not blank is a row with a text; if `brace_is_enough`, whether
  /// it begins with a brace. Reads ahead, at most as far as the longest possible row.
  [[nodiscard]] bool begins_with_row(bool brace_is_enough);

  [[nodiscard]] static bool is_row_with_text(std::string_view row);

  /// Appends one line with its '\n', or at most its first `limit` bytes. Returns false at the end
  /// of the file.
  [[nodiscard]] bool append_line(std::string& out, std::uint64_t limit);

  [[nodiscard]] bool next_row(std::string& out);

  [[nodiscard]] bool next_piece(std::string& out);

  [[nodiscard]] bool next_parquet_text(std::string& out);

  /// Keeps complete lines, or at least complete characters, in `out`; the rest goes to the next
  /// piece.
  void cut(std::string& out);

  document_options options_;
  byte_stream stream_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  text_format format_ = text_format::plain;
  text_source parquet_;
  std::uint64_t lines_ = 0;
  std::uint64_t document_line_ = 0;
  std::string pending_;
};

}  // namespace mpt::data
