// tuning_table: the results of timing as a value: the fastest choice for each task.
//
// Choices differ in the order of their sums, and timing finds which is the fastest; so ranks that
// each used their own results would not compute the same bits. Ranks agree by exchanging tables and
// merging them in the order of ranks, and a run stores the result next to its checkpoints. Text
// that is read from there is not trusted. Needs no CUDA.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <parallel/core/error.hpp>
#include <parallel/core/hexadecimal.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::cuda {

/// Parses the text of tables, line by line and word by word; messages state the line.
class tuning_reader {
 public:
  tuning_reader(std::string_view text, std::string_view source) : rest_(text), source_(source) {}

  template <class... Parts>
  void expect(bool condition, Parts const&... parts) const {
    require(condition, source_, ", line ", line_number_, ": ", parts...);
  }

  [[nodiscard]] bool at_end() const { return rest_.empty(); }

  void next_line() {
    ++line_number_;
    auto const end = rest_.find('\n');
    expect(end != std::string_view::npos, "cut off");
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
  }

  /// The next word: the line up to the next space.
  [[nodiscard]] std::string_view word() {
    auto const out = line_.substr(0, line_.find(' '));
    line_.remove_prefix(std::min(line_.size(), out.size() + 1));
    return out;
  }
  [[nodiscard]] std::string_view rest_of_line() { return std::exchange(line_, {}); }

  [[nodiscard]] index number(char const* name, index min_value, index max_value) {
    auto const text = word();
    index value = 0;
    auto const* const last = text.data() + text.size();
    auto const [end, problem] = std::from_chars(text.data(), last, value);
    expect(problem == std::errc() && end == last && value >= min_value && value <= max_value, name,
           " is '", text, "', expected an integer from ", min_value, " to ", max_value);
    return value;
  }

  /// The next word as 16 hexadecimal digits.
  [[nodiscard]] std::uint64_t hexadecimal() {
    auto const text = word();
    auto const value = parse_hexadecimal(text);
    expect(value.has_value(), "'", text, "' is not 16 hexadecimal digits");
    return *value;
  }

 private:
  std::string_view rest_;
  std::string_view source_;
  std::string_view line_;
  int line_number_ = 0;
};

/// `Format` defines the types of a task and of a choice (key, choice), the name of the table in its
/// text (name, and version, which changes with the format of an entry), the noun for a task in
/// messages (task), and how an entry is written (write(text, key, choice)) and read (read(reader),
/// which returns both).
template <class Format>
class tuning_table {
 public:
  using key = typename Format::key;
  using choice = typename Format::choice;

  /// An empty table for a library and device, described in one line. Choices have no meaning for
  /// any other library or device.
  explicit tuning_table(std::string made_for) : made_for_(std::move(made_for)) {
    require(!made_for_.empty() && made_for_.find('\n') == std::string::npos, Format::name,
            ": the library and device must be described in one line");
  }

  [[nodiscard]] std::string const& made_for() const { return made_for_; }
  [[nodiscard]] std::map<key, choice> const& entries() const { return entries_; }

  void set(key const& entry_key, choice const& best) { entries_.insert_or_assign(entry_key, best); }

  /// Adds the choices of `other` for tasks that have none here. Throws `error` unless both tables
  /// were made for the same library and device.
  void merge(tuning_table const& other) {
    require(made_for_ == other.made_for_, Format::name, ": made for '", other.made_for_,
            "', which cannot be merged with one made for '", made_for_, "'");
    entries_.insert(other.entries_.begin(), other.entries_.end());
  }

  /// Reads the table from the text that `to_text` made. `source` (a file, a rank) opens every
  /// message. Throws `error` with the line when the text is anything else.
  [[nodiscard]] static tuning_table parse(std::string_view text, std::string_view source) {
    tuning_reader in(text, source);
    auto table = read(in);
    in.expect(in.at_end(), "more entries than the ", table.entries_.size(),
              " that the first line tells of");
    return table;
  }
  /// Reads the table at the current line of `in`, as `parse` does; more text may follow.
  [[nodiscard]] static tuning_table read(tuning_reader& in) {
    in.next_line();
    in.expect(in.word() == Format::name, "not a table of ", Format::name);
    in.expect(in.word() == concat(Format::version), "not of version ", Format::version,
              ", the only one this program reads; without it kernels are timed anew");
    auto const count = in.number("the number of entries", 0, 1'000'000);
    auto const made_for = in.rest_of_line();
    in.expect(!made_for.empty(), "does not say for which library and device it was made");
    tuning_table table{std::string(made_for)};
    for (index i = 0; i < count; ++i) {
      in.next_line();
      auto const [entry_key, best] = Format::read(in);
      in.expect(in.rest_of_line().empty(), "more than an entry has");
      in.expect(!table.entries_.contains(entry_key), "a second entry for the same ", Format::task);
      table.set(entry_key, best);
    }
    return table;
  }

  /// The table as lines of printable ASCII (if made_for is), the same for equal tables: a line with
  /// the number of entries and made_for, then one entry per line.
  [[nodiscard]] friend std::string to_text(tuning_table const& table) {
    std::string out = concat(Format::name, " ", Format::version, " ", table.entries_.size(), " ",
                             table.made_for_, "\n");
    for (auto const& [entry_key, best] : table.entries_) {
      Format::write(out, entry_key, best);
      out += '\n';
    }
    return out;
  }

  friend bool operator==(tuning_table const&, tuning_table const&) = default;

 private:
  std::string made_for_;
  std::map<key, choice> entries_;
};

}  // namespace parallel::cuda
