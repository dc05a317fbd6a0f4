// matmul_tuning: which algorithm was the fastest for which product, as a value.
//
// Algorithms differ in the order of their sums, and which is the fastest is found by timing; so
// ranks that each took their own would not compute the same bits. Ranks agree by exchanging tables
// and merging them in the order of ranks, and a run keeps the result beside its checkpoints. Text
// that is read from there is not trusted. Needs no CUDA.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <parallel/core/error.hpp>
#include <parallel/ops/cuda/matmul_shape.hpp>

namespace parallel::cuda {

/// The words of a library's own description of an algorithm, and the place it had in the library's
/// guess of what is fast (0: the first).
struct matmul_algorithm {
  std::array<std::uint64_t, 8> words{};
  int guess = 0;

  friend bool operator==(matmul_algorithm const&, matmul_algorithm const&) = default;
};

class matmul_tuning {
 public:
  /// An empty table for a library and device, described in one line: algorithms mean something to
  /// no other.
  explicit matmul_tuning(std::string made_for) : made_for_(std::move(made_for)) {
    require(!made_for_.empty() && made_for_.find('\n') == std::string::npos,
            "matmul tuning: the library and device must be described in one line");
  }

  [[nodiscard]] std::string const& made_for() const { return made_for_; }
  [[nodiscard]] std::map<matmul_shape, matmul_algorithm> const& entries() const { return entries_; }

  void set(matmul_shape const& shape, matmul_algorithm const& algorithm) {
    entries_.insert_or_assign(shape, algorithm);
  }

  /// Takes the other's algorithms for shapes that have none here. Throws `error` unless both were
  /// made for the same library and device.
  void merge(matmul_tuning const& other) {
    require(made_for_ == other.made_for_, "matmul tuning: made for '", other.made_for_,
            "', which cannot be merged with one made for '", made_for_, "'");
    entries_.insert(other.entries_.begin(), other.entries_.end());
  }

  /// What parse_matmul_tuning reads.
  [[nodiscard]] static matmul_tuning parse(std::string_view text, std::string_view source);

  friend bool operator==(matmul_tuning const&, matmul_tuning const&) = default;

 private:
  std::string made_for_;
  std::map<matmul_shape, matmul_algorithm> entries_;
};

namespace detail {

/// What products can be tuned: the element types of A and B, and that of C.
inline constexpr std::array<std::pair<dtype, dtype>, 3> tuned_types{{
    {dtype::f32, dtype::f32},
    {dtype::bf16, dtype::bf16},
    {dtype::bf16, dtype::f32},
}};

/// Takes a tuning's text apart, line by line and word by word; messages name the line.
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

  /// The line up to the next space.
  [[nodiscard]] std::string_view word() {
    auto const out = line_.substr(0, line_.find(' '));
    line_.remove_prefix(std::min(line_.size(), out.size() + 1));
    return out;
  }
  [[nodiscard]] std::string_view rest_of_line() { return std::exchange(line_, {}); }

  [[nodiscard]] index number(char const* what, index least, index most) {
    auto const text = word();
    auto const value = parse<index>(text, 10);
    expect(value && *value >= least && *value <= most, what, " is '", text,
           "', expected an integer from ", least, " to ", most);
    return *value;
  }

  /// 16 digits to the base of 16.
  [[nodiscard]] std::uint64_t hexadecimal() {
    auto const text = word();
    auto const value = parse<std::uint64_t>(text, 16);
    expect(value && text.size() == 16, "'", text, "' is not 16 hexadecimal digits");
    return *value;
  }

 private:
  template <class Number>
  [[nodiscard]] static std::optional<Number> parse(std::string_view text, int base) {
    Number value{};
    auto const [end, status] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (status != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
  }

  std::string_view rest_;
  std::string_view source_;
  std::string_view line_;
  int line_number_ = 0;
};

[[nodiscard]] inline std::pair<matmul_shape, matmul_algorithm> read_entry(tuning_reader& in) {
  constexpr index most = index{1} << 40;
  matmul_shape shape{
      .m = in.number("m", 1, most), .n = in.number("n", 1, most), .k = in.number("k", 1, most)};
  auto const form = in.word();
  auto const added = form.substr(std::min<std::size_t>(form.size(), 2));
  in.expect(form.find_first_not_of("NT") == 2 &&
                (added == "=" || added == "+=" || added == "=b" || added == "+=b"),
            "'", form, "' is not N or T for A, the same for B, = or +=, and b for a bias");
  shape.transpose_a = form[0] == 'T';
  shape.transpose_b = form[1] == 'T';
  shape.accumulate = form[2] == '+';
  shape.bias = form.back() == 'b';
  auto const input = in.word();
  auto const output = in.word();
  bool known = false;
  for (auto const& [from, to] : tuned_types)
    if (name_of(from) == input && name_of(to) == output) {
      known = true;
      shape.input = from;
      shape.output = to;
    }
  in.expect(known, "'", input, " ", output, "' are not the element types of a product");
  for (unsigned* const alignment : {&shape.alignment_a, &shape.alignment_b, &shape.alignment_c}) {
    *alignment = static_cast<unsigned>(in.number("an alignment", 1, 16));
    in.expect(std::has_single_bit(*alignment), "an alignment is ", *alignment,
              ", expected a power of two");
  }
  matmul_algorithm algorithm{.guess = static_cast<int>(in.number("the guess", 0, 1000))};
  for (auto& word : algorithm.words) word = in.hexadecimal();
  in.expect(in.rest_of_line().empty(), "more than an entry has");
  return {shape, algorithm};
}

}  // namespace detail

/// The table as lines of printable ASCII (if made_for is), the same for equal tables: a head with
/// the number of entries and made_for, then an entry a line, such as
/// `2304 768 32768 TN+= bf16 f32 16 16 16 3` and the algorithm's words.
[[nodiscard]] inline std::string to_text(matmul_tuning const& table) {
  std::string out = concat("matmul_tuning 1 ", table.entries().size(), " ", table.made_for(), "\n");
  for (auto const& [s, algorithm] : table.entries()) {
    out += concat(s.m, " ", s.n, " ", s.k, " ", s.transpose_a ? 'T' : 'N',
                  s.transpose_b ? 'T' : 'N', s.accumulate ? "+=" : "=", s.bias ? "b " : " ",
                  name_of(s.input), " ", name_of(s.output), " ", s.alignment_a, " ", s.alignment_b,
                  " ", s.alignment_c, " ", algorithm.guess);
    for (auto const word : algorithm.words) {
      out += ' ';
      for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[word >> shift & 15U];
    }
    out += '\n';
  }
  return out;
}

/// The table that `to_text` made this of. `source` (a file, a rank) opens every message. Throws
/// `error` naming the line when it is anything else.
[[nodiscard]] inline matmul_tuning parse_matmul_tuning(std::string_view text,
                                                       std::string_view source) {
  detail::tuning_reader in(text, source);
  in.next_line();
  in.expect(in.word() == "matmul_tuning", "not a table of matmul tuning");
  in.expect(in.word() == "1", "not of version 1, the only one this program reads");
  auto const count = in.number("the number of entries", 0, 1'000'000);
  auto const made_for = in.rest_of_line();
  in.expect(!made_for.empty(), "does not say for which library and device it was made");
  matmul_tuning table{std::string(made_for)};
  for (index i = 0; i < count; ++i) {
    in.next_line();
    auto const [shape, algorithm] = detail::read_entry(in);
    in.expect(!table.entries().contains(shape), "a second entry for the same product");
    table.set(shape, algorithm);
  }
  in.expect(in.at_end(), "more entries than the ", count, " that the first line tells of");
  return table;
}

inline matmul_tuning matmul_tuning::parse(std::string_view text, std::string_view source) {
  return parse_matmul_tuning(text, source);
}

}  // namespace parallel::cuda
