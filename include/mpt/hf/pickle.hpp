// pickle reads the values that a Python pickle describes, without running any of its code.
//
// A pickle is a program for a stack machine that may name any function and call it. This reader
// obeys only the instructions that build values, accepts only names on a list, and never calls a
// function: it knows the results of the few functions that matter (a dictionary, a tensor's
// location), and any other result is a value of kind `object` without content. Everything else is
// refused. Limits are checked before memory is allocated; shared values and cycles are not copied,
// so they cannot grow.
//
// The names that a pickle of weights may contain, from PyTorch's and Composer's files. None of them
// is ever looked up or called; any other name is refused.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <mpt/yaml/node.hpp>
#include <parallel/core/error.hpp>

namespace mpt::hf::pickle_names {

/// Functions whose results the reader of pickles knows.
inline constexpr std::string_view mapping = "collections.OrderedDict";
inline constexpr std::string_view tensor = "torch._utils._rebuild_tensor_v2";
inline constexpr std::string_view parameter = "torch._utils._rebuild_parameter";

/// Types of storages, which tell the type of the elements.
inline constexpr std::array<std::string_view, 11> storages = {
    "torch.FloatStorage",    "torch.DoubleStorage",      "torch.HalfStorage",
    "torch.BFloat16Storage", "torch.LongStorage",        "torch.IntStorage",
    "torch.ShortStorage",    "torch.CharStorage",        "torch.ByteStorage",
    "torch.BoolStorage",     "torch.ComplexFloatStorage"};

/// Functions and types whose results are irrelevant for weights.
inline constexpr std::array<std::string_view, 27> irrelevant = {
    "torch.Size",
    "torch.device",
    "torch.float16",
    "torch.bfloat16",
    "torch.float32",
    "torch.float64",
    "torch.int64",
    "torch.torch_version.TorchVersion",
    "collections.defaultdict",
    "collections.deque",
    "builtins.set",
    "builtins.frozenset",
    "builtins.complex",
    "builtins.bytearray",
    "__builtin__.set",
    "__builtin__.bytearray",
    "_codecs.encode",
    "datetime.timedelta",
    "datetime.datetime",
    "numpy.ndarray",
    "numpy.dtype",
    "numpy.core.multiarray._reconstruct",
    "numpy.core.multiarray.scalar",
    "numpy._core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "composer.core.time.Time",
    "composer.core.time.TimeUnit"};

/// Whether this global is the type of a storage.
[[nodiscard]] bool is_storage(std::string_view name);

/// Whether a pickle may name this global.
[[nodiscard]] bool is_allowed(std::string_view name);

}  // namespace mpt::hf::pickle_names

namespace mpt::hf {

class pickle {
 public:
  using id = std::uint32_t;

  /// The kind of a value. The parts of a `mapping` are keys and values in turn. A `storage` is
  /// bytes outside the pickle: its text is their key, its part is the global that names their type,
  /// and its integer is the number of elements. The parts of a `tensor` are the storage and the
  /// tuples of extents and strides; its integer is the first element. The text of a `global` is
  /// "module.name". An `object` has no content.
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

  /// A value of the pickle; `kind` says what its members mean.
  struct value {
    kind type = kind::none;
    std::int64_t integer = 0;  ///< also a boolean's value
    double real = 0;
    std::string text = {};
    std::vector<id> parts = {};
  };

  static constexpr std::size_t max_values = 1 << 20;

  /// Reads a pickle; `source` names it in messages.
  pickle(std::string_view code, std::string source);

  [[nodiscard]] std::string const& source() const { return source_; }
  [[nodiscard]] id root() const { return root_; }
  [[nodiscard]] value const& value_of(id value_id) const { return values_.at(value_id); }

  /// The value of a key in a mapping, the last one if there are several. Empty when `mapping` is no
  /// mapping or lacks the key.
  [[nodiscard]] std::optional<id> find(id mapping, std::string_view key) const;
  /// The value under `keys` in nested mappings, beginning with the outermost.
  [[nodiscard]] std::optional<id> find_path(std::span<std::string_view const> keys) const;

 private:
  [[noreturn]] void fail_damaged(std::string_view problem) const;
  void check(bool holds, std::string_view problem) const;

  // Reading the code.

  [[nodiscard]] std::string_view read_bytes(std::uint64_t bytes);
  /// Reads a little-endian number.
  [[nodiscard]] std::uint64_t read_number(unsigned bytes);
  [[nodiscard]] std::string_view read_line();

  // The stack.

  void push(value new_value);
  void count_parts(std::size_t added);
  void push(kind type) { push(value{.type = type}); }
  void push_integer(std::int64_t number) { push({.type = kind::integer, .integer = number}); }
  [[nodiscard]] id pop();
  [[nodiscard]] id top() const;
  /// Removes and returns all values since the last mark.
  [[nodiscard]] std::vector<id> pop_marked();
  void push_tuple(std::size_t size);
  void append_parts(id collection, std::vector<id> const& parts, kind expected);
  void memoize(std::uint64_t slot);
  void push_memoized(std::uint64_t slot);

  // Names and the results of calls.

  void push_global(std::string_view module, std::string_view name);

  void call();
  void make_mapping(std::vector<id> const& arguments);
  void make_tensor(std::vector<id> const& arguments);
  /// Makes a storage of the tuple ("storage", type, key, device, elements) on the stack.
  void make_storage();

  void push_long();
  void push_real();
  void push_text(kind type, unsigned length_bytes);

  void run();

  void step(unsigned char code);
  /// Carries out an instruction that pushes one value or notes one; false for any other.
  bool push_value(unsigned char code);
  /// Carries out an instruction that takes values from the stack; false for any other.
  bool combine_values(unsigned char code);

  std::string_view code_;
  std::string source_;
  std::size_t position_ = 0;
  std::deque<value> values_;    // a deque keeps the addresses of values
  std::size_t part_count_ = 0;  // of all values
  std::vector<id> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, id> memo_;
  id root_ = 0;
};

}  // namespace mpt::hf
