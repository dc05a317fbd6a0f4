// pickle: what a Python pickle describes, as values, without running any of it.
//
// A pickle is a program for a stack machine that may name any function and call it. Here only the
// instructions that build values are obeyed, only names on a list are taken, and a call is never
// made: what the few functions that matter would return is known (a dictionary, a tensor's place),
// every other result is a value of kind `object` without content. Whatever else is refused. Limits
// hold before memory is taken; sharing and cycles stay as they are, so nothing grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <mpt/config/node.hpp>
#include <mpt/hf/pickle_names.hpp>
#include <parallel/core/error.hpp>

namespace mpt::hf {

class pickle {
 public:
  using id = std::uint32_t;

  /// `mapping`: keys and values in turn. `storage`: bytes elsewhere; text is their key, parts the
  /// global that says their type and the number of elements. `tensor`: parts are the storage, and
  /// the tuples of extents and strides; integer is the first element. `global`: text is
  /// "module.name". `object`: something whose content is not made.
  enum class kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    bytes,
    list,
    tuple,
    mapping,
    global,
    storage,
    tensor,
    object
  };

  struct value {
    kind what = kind::none;
    std::int64_t integer = 0;  // of booleans, too
    double real = 0;
    std::string text = {};
    std::vector<id> parts = {};
  };

  static constexpr std::size_t max_values = 1 << 20;

  /// Reads a pickle; `source` names it in messages.
  pickle(std::string_view code, std::string source);

  [[nodiscard]] std::string const& source() const { return source_; }
  [[nodiscard]] id root() const { return root_; }
  [[nodiscard]] value const& at(id which) const { return values_.at(which); }

  /// What a mapping has under a key, the last if several; nothing when it is no mapping or has
  /// none.
  [[nodiscard]] std::optional<id> find(id mapping, std::string_view key) const;
  /// What mappings one inside the other have under `keys`, from the outermost on.
  [[nodiscard]] std::optional<id> find_path(std::span<std::string_view const> keys) const;

 private:
  [[noreturn]] void damaged(std::string_view how) const;
  void check(bool good, std::string_view how) const;

  // The code.

  [[nodiscard]] std::string_view next(std::uint64_t bytes);
  /// A little-endian number.
  [[nodiscard]] std::uint64_t number(unsigned bytes);
  [[nodiscard]] std::string_view line();

  // The stack.

  void push(value made);
  void count_parts(std::size_t more);
  void push(kind what) { push(value{.what = what}); }
  void push_integer(std::int64_t number) { push({.what = kind::integer, .integer = number}); }
  [[nodiscard]] id pop();
  [[nodiscard]] id top() const;
  /// All since the last mark.
  [[nodiscard]] std::vector<id> pop_marked();
  void push_tuple(std::size_t size);
  void add(id to, std::vector<id> const& parts, kind expected);
  void remember(std::uint64_t place);
  void recall(std::uint64_t place);

  // Names and what they would make.

  void push_global(std::string_view module, std::string_view name);

  void call();
  void make_mapping(std::vector<id> const& given);
  void make_tensor(std::vector<id> const& given);
  /// ("storage", type, key, device, elements).
  void make_storage();

  void push_long();
  void push_real();
  void push_text(kind what, unsigned length_bytes);

  void run();

  void step(unsigned char code);

  std::string_view code_;
  std::string source_;
  std::size_t at_ = 0;
  std::deque<value> values_;  // addresses stay
  std::size_t parts_ = 0;     // of all values
  std::vector<id> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, id> memo_;
  id root_ = 0;
};

}  // namespace mpt::hf
