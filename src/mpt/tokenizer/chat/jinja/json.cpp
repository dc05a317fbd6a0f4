// The filter tojson: json.dumps() of Python, as transformers calls it.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <mpt/tokenizer/chat/jinja/builtins.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt::jinja {
namespace {

class json_writer {
 public:
  json_writer(environment& state, arguments const& args) : state_(state) {
    auto const bound =
        bind(args, "tojson", {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
    ensures_ascii_ = bound[1] != nullptr && is_true(*bound[1]);
    if (is_given(bound[2])) {
      has_lines_ = true;
      indentation_ = bound[2]->is_text()
                         ? *bound[2]->string()
                         : std::string(static_cast<std::size_t>(std::clamp<std::int64_t>(
                                           require_integer(*bound[2]), 0, 1000)),
                                       ' ');
      item_separator_ = ",";
    }
    if (is_given(bound[3])) {
      auto const separators = iterate(*bound[3]);
      if (separators.size() != 2) throw render_error("separators are two strings");
      item_separator_ = require_text(separators[0]);
      key_separator_ = require_text(separators[1]);
    }
    sorts_keys_ = bound[4] != nullptr && is_true(*bound[4]);
    state_.work.spend(weight(*bound[0]));
    write(*bound[0], 0);
  }

  [[nodiscard]] std::string result() && { return std::move(out_); }

 private:
  void add(std::string_view text) {
    state_.work.spend(text.size());
    out_ += text;
  }

  void write(value const& operand, std::size_t depth) {
    if (operand.is<none>()) return add("null");
    if (auto const* const found = std::get_if<bool>(&operand))
      return add(*found ? "true" : "false");
    if (operand.integer()) return add(std::to_string(*operand.integer()));
    if (auto const* const found = std::get_if<double>(&operand)) return add(number(*found));
    if (operand.is_text()) return write_text(*operand.string());
    auto const* const list = operand.items();
    if (list != nullptr &&
        (list->kind == sequence_kind::list || list->kind == sequence_kind::tuple))
      return write_items(list->items, depth);
    if (operand.dictionary() != nullptr) return write_entries(*operand.dictionary(), depth);
    throw render_error("Object of type " + type_name(operand) + " is not JSON serializable");
  }

  [[nodiscard]] static std::string number(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return to_string(number);
  }

  void begin_item(bool is_first, std::size_t depth) {
    if (!is_first) add(item_separator_);
    begin_line(depth);
  }
  void begin_line(std::size_t depth) {
    if (!has_lines_) return;
    add("\n");
    for (std::size_t i = 0; i < depth; ++i) add(indentation_);
  }

  void write_items(std::vector<value> const& items, std::size_t depth) {
    add("[");
    for (auto const& item : items) {
      begin_item(&item == &items.front(), depth + 1);
      write(item, depth + 1);
    }
    if (!items.empty()) begin_line(depth);
    add("]");
  }

  void write_entries(mapping const& dictionary, std::size_t depth) {
    auto entries = dictionary.entries;
    if (sorts_keys_)
      std::stable_sort(entries.begin(), entries.end(), [](auto const& left, auto const& right) {
        return is_less(left.first, right.first);
      });
    add("{");
    for (auto const& entry : entries) {
      begin_item(&entry == &entries.front(), depth + 1);
      auto const& key = entry.first;
      if (key.is_text()) {
        write_text(*key.string());
      } else {
        if (!key.is<none>() && !key.number())
          throw render_error("keys must be str, int, float, bool or None, not " + type_name(key));
        add("\"");
        write(key, depth);
        add("\"");
      }
      add(key_separator_);
      write(entry.second, depth + 1);
    }
    if (!entries.empty()) begin_line(depth);
    add("}");
  }

  void write_text(std::string_view text) {
    std::string quoted = "\"";
    for (std::size_t i = 0; i < text.size();) {
      auto const next = utf8::read(text, i);
      auto const c = next.code_point;
      constexpr std::string_view escaped = "\"\\\n\r\t\b\f";
      auto const escape = c < 0x80 ? escaped.find(static_cast<char>(c)) : std::string_view::npos;
      if (escape != std::string_view::npos)
        quoted += std::string("\\") + "\"\\nrtbf"[escape];
      else if (c < 0x20 || (ensures_ascii_ && c >= 0x7F && c < 0x10000 && c != 0x7F))
        quoted += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(c));
      else if (ensures_ascii_ && c >= 0x10000)
        quoted += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((c - 0x10000) >> 10),
                              0xDC00 + ((c - 0x10000) & 0x3FF));
      else
        quoted += text.substr(i, next.bytes);
      i += next.bytes;
    }
    add(quoted + "\"");
  }

  environment& state_;
  std::string out_;
  std::string indentation_;
  std::string item_separator_ = ", ";
  std::string key_separator_ = ": ";
  bool has_lines_ = false;
  bool ensures_ascii_ = false;
  bool sorts_keys_ = false;
};

}  // namespace

value to_json(environment& state, arguments& args) {
  return make_text(json_writer(state, args).result());
}

}  // namespace mpt::jinja
