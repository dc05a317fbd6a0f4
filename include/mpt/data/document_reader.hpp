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

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/data/byte_order_mark.hpp>
#include <mpt/data/byte_stream.hpp>
#include <mpt/data/json.hpp>

namespace mpt::data {

enum class text_format { json_lines, plain };

struct document_options {
  static constexpr std::uint64_t whole_file = std::uint64_t{1} << 60;  ///< more than any file
  std::uint64_t plain_text_bytes = std::uint64_t{1} << 14;  ///< least size of a piece of plain text
  std::uint64_t max_line_bytes = std::uint64_t{1} << 28;    ///< longer JSON lines are an error
};

namespace detail {

/// Takes "text" out of one row without building it: the row's other values are only skipped.
class text_row {
 public:
  bool key(std::string& name) {
    if (depth_ == 1) {
      if (wanted_ = name == "text"; wanted_ && std::exchange(had_text_, true)) return fail_twice();
      if (keys_.size() < 300) keys_ += (keys_.empty() ? "\"" : ", \"") + name + "\"";
    }
    return true;
  }
  bool string(std::string& value) {
    if (depth_ == 1 && wanted_) {
      text = std::move(value);
      found = true;
      found_type = "string";
    }
    return depth_ > 0 || fail_root();
  }
  bool null() { return other("null"); }
  bool boolean(bool) { return other("boolean"); }
  bool number_integer(std::int64_t) { return other("number"); }
  bool number_unsigned(std::uint64_t) { return other("number"); }
  bool number_float(double, std::string const&) { return other("number"); }
  bool binary(std::vector<std::uint8_t>&) { return other("binary"); }
  bool start_object(std::size_t) {
    if (depth_ == 1 && wanted_) reject("object");
    return ++depth_ <= max_depth || fail_deep();
  }
  bool end_object() { return leave(); }
  bool start_array(std::size_t) {
    if (depth_ == 0) return fail_root();
    if (depth_ == 1 && wanted_) reject("array");
    return ++depth_ <= max_depth || fail_deep();
  }
  bool end_array() { return leave(); }
  bool parse_error(std::size_t, std::string const&, nlohmann::json::exception const& problem) {
    error = parallel::concat("not valid JSON: ", parallel::checkpoint::words_of(problem));
    return false;
  }

  std::string text;
  bool found = false;      // the last "text" was a string
  std::string found_type;  // of the last "text"
  std::string error;

  [[nodiscard]] std::string const& keys() const { return keys_; }

 private:
  static constexpr int max_depth = 64;

  void reject(char const* type) {
    found = false;
    found_type = type;
  }
  bool other(char const* type) {
    if (depth_ == 1 && wanted_) reject(type);
    return depth_ > 0 || fail_root();
  }
  bool leave() {
    --depth_;
    return true;
  }
  bool fail_root() {
    error = "expected one JSON object a line ({\"text\": ...})";
    return false;
  }
  bool fail_deep() {
    error = "nested deeper than 64";
    return false;
  }
  bool fail_twice() {
    error = "\"text\" stands twice in the row";
    return false;
  }

  int depth_ = 0;
  bool wanted_ = false;
  bool had_text_ = false;
  std::string keys_;
};

/// Where rows of such keys belong that have no "text"; or "".
[[nodiscard]] inline std::string_view advice_on(std::string const& keys) {
  for (auto const* const key : {"\"response\"", "\"completion\"", "\"messages\""})
    if (keys.find(key) != std::string::npos)
      return "; prompts with responses are evaluated by finetune, as a set of its eval_loader";
  return "";
}

}  // namespace detail

/// The "text" of one JSON row; errors name `file` and `line`, and the keys the row has.
[[nodiscard]] inline std::string text_of_row(std::string_view row, std::string_view file,
                                             std::uint64_t line) {
  detail::text_row handler;
  bool const parsed = nlohmann::json::sax_parse(row.begin(), row.end(), &handler);
  parallel::require(parsed, file, ":", line, ": ", handler.error);
  auto const& keys = handler.keys();
  parallel::require(
      handler.found, file, ":", line,
      handler.found_type.empty()
          ? parallel::concat(": the row has no \"text\"; its keys are ",
                             keys.empty() ? "none" : keys, detail::advice_on(keys))
          : parallel::concat(": \"text\" is of type ", handler.found_type, ", expected a string"));
  return std::move(handler.text);
}

class document_reader {
 public:
  explicit document_reader(std::filesystem::path const& path, document_options options = {})
      : options_(options), stream_(path, compression_of(path.native())), buffer_(1U << 18) {
    parallel::require(options_.plain_text_bytes > 0, "plain_text_bytes must be positive");
    while (end_ < longest_mark) {
      auto const got = stream_.read(buffer_.data() + end_, buffer_.size() - end_);
      if (got == 0) break;
      end_ += got;
    }
    begin_ = byte_order_mark(std::string_view(buffer_.data(), end_), name());
    auto inner = path.filename();
    if (compression_of(inner.native()) != compression::none) inner = inner.stem();
    auto const ending = lower_case(inner.extension().native());
    bool const told_nothing = ending.empty() && compression_of(path.native()) != compression::none;
    if (is_json_ending(ending) || begins_with_row(told_nothing)) format_ = text_format::json_lines;
  }

  [[nodiscard]] text_format format() const { return format_; }
  [[nodiscard]] std::string const& name() const { return stream_.name(); }
  /// Line, counted from 1, on which the last document began.
  [[nodiscard]] std::uint64_t line() const { return document_line_; }
  /// Bytes of the (compressed) file read so far, for progress.
  [[nodiscard]] std::uint64_t consumed() const { return stream_.consumed(); }

  /// Puts the next document into `out`: a JSON row yet to be parsed by `text_of_row`, or plain
  /// text. Returns false at the end of the file.
  [[nodiscard]] bool next(std::string& out) {
    if (format_ == text_format::json_lines) return next_row(out);
    bool const more = next_piece(out);
    parallel::require(
        out.find('\0') == std::string::npos, name(), ":", document_line_,
        ": a zero byte follows, so this is no text in UTF-8; give text or JSON lines");
    return more;
  }

 private:
  static constexpr std::size_t longest_mark = 4;  ///< bytes of a byte order mark

  [[nodiscard]] bool refill() {
    begin_ = 0;
    end_ = stream_.read(buffer_.data(), buffer_.size());
    return end_ > 0;
  }

  /// Whether the first line that is not blank is a row with a text, or, if that is enough, begins
  /// like a row. Reads ahead, no further than a row may be long.
  [[nodiscard]] bool begins_with_row(bool brace_is_enough) {
    constexpr std::string_view blank = " \t\r\n";
    while (true) {
      std::string_view const start(buffer_.data(), end_);
      auto const first = start.find_first_not_of(blank, begin_);
      if (first != start.npos && start[first] != '{') return false;
      if (first != start.npos && brace_is_enough) return true;
      auto const newline = first == start.npos ? start.npos : start.find('\n', first);
      if (newline != start.npos) return is_row_with_text(start.substr(first, newline - first));
      if (end_ == buffer_.size()) {
        if (first == start.npos || end_ >= options_.max_line_bytes) return false;
        buffer_.resize(2 * buffer_.size());
      }
      auto const got = stream_.read(buffer_.data() + end_, buffer_.size() - end_);
      if (got == 0) return first != start.npos && is_row_with_text(start.substr(first));
      end_ += got;
    }
  }

  [[nodiscard]] static bool is_row_with_text(std::string_view row) {
    detail::text_row handler;
    return nlohmann::json::sax_parse(row.begin(), row.end(), &handler) && handler.found;
  }

  /// Appends one line with its '\n', or at most `limit` bytes of it. False at the end of the file.
  [[nodiscard]] bool append_line(std::string& out, std::uint64_t limit) {
    bool any = false;
    while (limit > 0) {
      if (begin_ == end_ && !refill()) return any;
      auto rest = std::string_view(buffer_.data() + begin_, end_ - begin_).substr(0, limit);
      auto const newline = rest.find('\n');
      if (newline != std::string_view::npos) rest = rest.substr(0, newline + 1);
      out += rest;
      begin_ += rest.size();
      limit -= rest.size();
      any = true;
      if (newline != std::string_view::npos) {
        ++lines_;
        return true;
      }
    }
    return any;
  }

  [[nodiscard]] bool next_row(std::string& out) {
    do {
      out.clear();
      document_line_ = lines_ + 1;
      if (!append_line(out, options_.max_line_bytes)) return false;
      parallel::require(out.size() < options_.max_line_bytes || out.back() == '\n', name(), ":",
                        document_line_, ": a line of more than ", options_.max_line_bytes,
                        " bytes; is this JSON lines?");
      if (out.back() == '\n') out.pop_back();
    } while (out.find_first_not_of(" \t\r") == std::string::npos);
    return true;
  }

  [[nodiscard]] bool next_piece(std::string& out) {
    out = std::exchange(pending_, {});
    document_line_ = lines_ + 1;
    auto const longest = 4 * options_.plain_text_bytes;
    for (std::size_t start = out.size(); out.size() < longest; start = out.size()) {
      if (!append_line(out, longest - start)) return !out.empty();
      bool const blank =
          std::string_view(out).substr(start).find_first_not_of(" \t\r\n") == std::string::npos;
      if (blank && out.back() == '\n' && out.size() >= options_.plain_text_bytes) return true;
    }
    cut(out);
    return true;
  }

  /// Leaves whole lines, or at least whole characters, in `out`; the rest begins the next piece.
  void cut(std::string& out) {
    if (out.back() == '\n') return;
    auto at = out.rfind('\n');
    if (at != std::string::npos) {
      ++at;
    } else {
      at = out.size();
      for (int i = 0; i < 3 && (static_cast<unsigned char>(out[at - 1]) & 0xC0U) == 0x80U; ++i)
        --at;
      // out[at - 1] now leads a character that may be cut short: it goes to the next piece
      if (static_cast<unsigned char>(out[at - 1]) >= 0xC0U) --at;
      if (at == 0) at = out.size();
    }
    pending_.assign(out, at);
    out.resize(at);
  }

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
