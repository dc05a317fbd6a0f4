#include <mpt/data/document_reader.hpp>

#include <utility>

#include <nlohmann/json.hpp>

#include <mpt/ascii.hpp>
#include <mpt/data/byte_stream.hpp>
#include <mpt/data/json.hpp>

namespace mpt::data {
namespace {

/// A SAX handler that extracts "text" from one row and skips the row's other values.
class text_row {
 public:
  bool key(std::string& name) {
    if (depth_ == 1) {
      if (is_text_key_ = name == "text"; is_text_key_ && std::exchange(has_text_key_, true))
        return fail_duplicate();
      if (keys_.size() < 300) keys_ += (keys_.empty() ? "\"" : ", \"") + name + "\"";
    }
    return true;
  }
  bool string(std::string& value) {
    if (depth_ == 1 && is_text_key_) {
      text = std::move(value);
      has_text = true;
      text_type = "string";
    }
    return depth_ > 0 || fail_root();
  }
  bool null() { return skip_value("null"); }
  bool boolean(bool) { return skip_value("boolean"); }
  bool number_integer(std::int64_t) { return skip_value("number"); }
  bool number_unsigned(std::uint64_t) { return skip_value("number"); }
  bool number_float(double, std::string const&) { return skip_value("number"); }
  bool binary(std::vector<std::uint8_t>&) { return skip_value("binary"); }
  bool start_object(std::size_t) {
    if (depth_ == 1 && is_text_key_) reject("object");
    return ++depth_ <= max_depth || fail_depth();
  }
  bool end_object() { return leave_level(); }
  bool start_array(std::size_t) {
    if (depth_ == 0) return fail_root();
    if (depth_ == 1 && is_text_key_) reject("array");
    return ++depth_ <= max_depth || fail_depth();
  }
  bool end_array() { return leave_level(); }
  bool parse_error(std::size_t, std::string const&, nlohmann::json::exception const& problem) {
    error = parallel::concat("not valid JSON: ", parallel::checkpoint::words_of(problem));
    return false;
  }

  std::string text;
  bool has_text = false;  // the last "text" was a string
  std::string text_type;  // of the last "text"
  std::string error;

  [[nodiscard]] std::string const& keys() const { return keys_; }

 private:
  static constexpr int max_depth = 64;

  void reject(char const* type) {
    has_text = false;
    text_type = type;
  }
  bool skip_value(char const* type) {
    if (depth_ == 1 && is_text_key_) reject(type);
    return depth_ > 0 || fail_root();
  }
  bool leave_level() {
    --depth_;
    return true;
  }
  bool fail_root() {
    error = "expected one JSON object a line ({\"text\": ...})";
    return false;
  }
  bool fail_depth() {
    error = "nested deeper than 64";
    return false;
  }
  bool fail_duplicate() {
    error = "\"text\" appears twice in the row";
    return false;
  }

  int depth_ = 0;
  bool is_text_key_ = false;
  bool has_text_key_ = false;
  std::string keys_;
};

/// Advice about rows with these keys and without "text"; or "".
[[nodiscard]] std::string_view advice_on(std::string const& keys) {
  for (auto const* const key : {"\"response\"", "\"completion\"", "\"messages\""})
    if (keys.find(key) != std::string::npos)
      return "; prompts with responses are evaluated by finetune, as a set of its eval_loader";
  return "";
}

}  // namespace

std::string text_of_row(std::string_view row, std::string_view file, std::uint64_t line) {
  text_row handler;
  bool const parsed = nlohmann::json::sax_parse(row.begin(), row.end(), &handler);
  parallel::require(parsed, file, ":", line, ": ", handler.error);
  parallel::checkpoint::require_no_zero_byte(row, parallel::concat(file, ":", line));
  auto const& keys = handler.keys();
  parallel::require(
      handler.has_text, file, ":", line,
      handler.text_type.empty()
          ? parallel::concat(": the row has no \"text\"; its keys are ",
                             keys.empty() ? "none" : keys, advice_on(keys))
          : parallel::concat(": \"text\" is of type ", handler.text_type, ", expected a string"));
  return std::move(handler.text);
}

bool is_parquet(std::filesystem::path const& file) {
  return lower_case(file.extension().native()) == ".parquet";
}

document_reader::document_reader(std::filesystem::path const& path, document_options options)
    : options_(std::move(options)),
      stream_(path, compression_of(path.native())),
      buffer_(1U << 18) {
  if (is_parquet(path)) {
    parallel::require(static_cast<bool>(options_.open_parquet), name(), ": ", parquet_advice);
    format_ = text_format::parquet;
    parquet_ = options_.open_parquet(path);
    return;
  }
  parallel::require(options_.plain_text_bytes > 0, "plain_text_bytes must be positive");
  while (end_ < max_mark_bytes) {
    auto const count_read = stream_.read(buffer_.data() + end_, buffer_.size() - end_);
    if (count_read == 0) break;
    end_ += count_read;
  }
  begin_ = byte_order_mark(std::string_view(buffer_.data(), end_), name());
  auto inner_name = path.filename();
  if (compression_of(inner_name.native()) != compression::none) inner_name = inner_name.stem();
  auto const ending = lower_case(inner_name.extension().native());
  bool const has_no_format_ending =
      ending.empty() && compression_of(path.native()) != compression::none;
  if (is_json_ending(ending) || begins_with_row(has_no_format_ending))
    format_ = text_format::json_lines;
}

bool document_reader::next(std::string& out) {
  if (format_ == text_format::json_lines) return next_row(out);
  if (format_ == text_format::parquet) return next_parquet_text(out);
  bool const has_document = next_piece(out);
  parallel::require(out.find('\0') == std::string::npos, name(), ":", document_line_,
                    ": a zero byte follows, so this is no text in UTF-8; give text or JSON lines");
  return has_document;
}

bool document_reader::refill() {
  begin_ = 0;
  end_ = stream_.read(buffer_.data(), buffer_.size());
  return end_ > 0;
}

bool document_reader::begins_with_row(bool brace_is_enough) {
  constexpr std::string_view blank = " \t\r\n";
  while (true) {
    std::string_view const window(buffer_.data(), end_);
    auto const first = window.find_first_not_of(blank, begin_);
    if (first != window.npos && window[first] != '{') return false;
    if (first != window.npos && brace_is_enough) return true;
    auto const newline = first == window.npos ? window.npos : window.find('\n', first);
    if (newline != window.npos) return is_row_with_text(window.substr(first, newline - first));
    if (end_ == buffer_.size()) {
      if (first == window.npos || end_ >= options_.max_line_bytes) return false;
      buffer_.resize(2 * buffer_.size());
    }
    auto const count_read = stream_.read(buffer_.data() + end_, buffer_.size() - end_);
    if (count_read == 0) return first != window.npos && is_row_with_text(window.substr(first));
    end_ += count_read;
  }
}

bool document_reader::is_row_with_text(std::string_view row) {
  text_row handler;
  return nlohmann::json::sax_parse(row.begin(), row.end(), &handler) && handler.has_text;
}

bool document_reader::append_line(std::string& out, std::uint64_t limit) {
  bool has_appended = false;
  while (limit > 0) {
    if (begin_ == end_ && !refill()) return has_appended;
    auto rest = std::string_view(buffer_.data() + begin_, end_ - begin_).substr(0, limit);
    auto const newline = rest.find('\n');
    if (newline != std::string_view::npos) rest = rest.substr(0, newline + 1);
    out += rest;
    begin_ += rest.size();
    limit -= rest.size();
    has_appended = true;
    if (newline != std::string_view::npos) {
      ++lines_;
      return true;
    }
  }
  return has_appended;
}

bool document_reader::next_row(std::string& out) {
  do {
    out.clear();
    document_line_ = lines_ + 1;
    if (!append_line(out, options_.max_line_bytes)) return false;
    parallel::require(out.size() < options_.max_line_bytes || out.back() == '\n', name(), ":",
                      document_line_, ": a line of more than ", options_.max_line_bytes,
                      " bytes; is this JSON lines?");
    if (out.back() == '\n') out.pop_back();
  } while (trimmed(out).empty());
  return true;
}

bool document_reader::next_parquet_text(std::string& out) {
  document_line_ = ++lines_;
  return parquet_(out);
}

bool document_reader::next_piece(std::string& out) {
  out = std::exchange(pending_, {});
  document_line_ = lines_ + 1;
  auto const max_bytes = 4 * options_.plain_text_bytes;
  for (std::size_t start = out.size(); out.size() < max_bytes; start = out.size()) {
    if (!append_line(out, max_bytes - start)) return !out.empty();
    bool const is_blank = trimmed(std::string_view(out).substr(start)).empty();
    if (is_blank && out.back() == '\n' && out.size() >= options_.plain_text_bytes) return true;
  }
  cut(out);
  return true;
}

void document_reader::cut(std::string& out) {
  if (out.back() == '\n') return;
  auto end = out.rfind('\n');
  if (end != std::string::npos) {
    ++end;
  } else {
    end = out.size();
    for (int i = 0; i < 3 && (static_cast<unsigned char>(out[end - 1]) & 0xC0U) == 0x80U; ++i)
      --end;
    // out[end - 1] now leads a character that may be cut short: it goes to the next piece
    if (static_cast<unsigned char>(out[end - 1]) >= 0xC0U) --end;
    if (end == 0) end = out.size();
  }
  pending_.assign(out, end);
  out.resize(end);
}

}  // namespace mpt::data
