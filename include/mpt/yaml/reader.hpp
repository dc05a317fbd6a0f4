// A typed reader of one mapping that tracks which keys were asked for.
//
// Every key that is read, accepted without effect or refused becomes a known key of the report;
// `finish` reports every other key as an error and names the nearest known one. So no key is
// dropped silently, and the list of known keys always equals the keys that are read. Every error
// states the location of the value, the full name of the key, the expected and the found value.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/yaml/node.hpp>
#include <mpt/yaml/report.hpp>
#include <mpt/yaml/scalar.hpp>
#include <mpt/yaml/time.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// Types a scalar can be read as.
template <class T>
concept config_value = std::same_as<T, bool> || std::same_as<T, std::int64_t> ||
    std::same_as<T, double> || std::same_as<T, std::string> || std::same_as<T, time_value>;

/// The name of a value of type T in messages and documentation.
template <config_value T>
[[nodiscard]] constexpr std::string_view form_of() {
  return std::same_as<T, bool>           ? "true or false"
         : std::same_as<T, std::int64_t> ? "an integer"
         : std::same_as<T, double>       ? "a finite number"
         : std::same_as<T, time_value>   ? "a time such as 100ba"
                                         : "text";
}

/// A typed reader of one mapping that tracks which keys were asked for.
class config_reader {
 public:
  /// A reader of `node`, a mapping or null, whose full name is `path` ("" for the whole document).
  /// Node and report must outlive the reader.
  config_reader(config_node const& node, std::string path, config_report& report);

  /// Whether the key is present and has a value.
  [[nodiscard]] bool has_key(std::string_view key) const;

  /// Whether the key is present, also blank: a blank name in a file turns a callback on with its
  /// defaults. A blank value on the command line removes the key.
  [[nodiscard]] bool is_named(std::string_view key);

  /// The value of a key that must be present.
  template <config_value T>
  [[nodiscard]] T required(std::string_view key) {
    register_key(key, key_role::effective, form_of<T>());
    parallel::require(has_key(key), location_of(key), ": ", full_name(key),
                      ": missing; it is required");
    return convert<T>(key, *find(key));
  }

  /// The value, or nothing when the key is absent or blank.
  template <config_value T>
  [[nodiscard]] std::optional<T> optional(std::string_view key) {
    register_key(key, key_role::effective, form_of<T>());
    if (!has_key(key)) return std::nullopt;
    return convert<T>(key, *find(key));
  }

  /// The value, or `fallback` when the key is absent or blank.
  template <config_value T>
  [[nodiscard]] T get(std::string_view key, T fallback) {
    auto value = optional<T>(key);
    document_key(key, form_of<T>(), setting_text(fallback), {});
    return value ? *std::move(value) : std::move(fallback);
  }

  /// A reader of the mapping under a key; of an empty one when absent or blank. The caller must
  /// call its `finish` too.
  [[nodiscard]] config_reader section(std::string_view key);

  /// A reader of the mapping under a key that is known already; the role of the key does not
  /// change.
  [[nodiscard]] config_reader members(std::string_view key) const;

  /// The unconverted value, or null; for keys with several forms.
  [[nodiscard]] config_node const* raw(std::string_view key);

  /// The unconverted value, or null, without making the key known.
  [[nodiscard]] config_node const* peek(std::string_view key) const;

  /// Accepts a key that has no effect here, and reports it if it is written.
  void accept_without_effect(std::string_view key, std::string_view reason);
  /// Reports a key that has been read, if it is written, as without effect because of another
  /// setting.
  void report_without_effect(std::string_view key, std::string_view reason);

  /// Reports the members of this mapping of variables that no `${...}` refers to.
  void report_unreferenced(std::string_view key);
  /// Calls report_without_effect for each of the keys.
  void report_all_without_effect(std::initializer_list<std::string_view> keys,
                                 std::string_view reason);

  /// Refuses a known key unless it is absent, blank, or one of the `accepted` spellings of LLM
  /// Foundry's default. `supported` is the advice at the end of the message.
  void refuse_unsupported(std::string_view key, std::string_view supported,
                          std::initializer_list<std::string_view> accepted = {});

  /// Refuses a known key that is present, blank or not.
  void refuse_named(std::string_view key, std::string_view instead);

  /// Fails at a key unless the condition holds: "location: name: parts".
  template <class... Parts>
  void check(std::string_view key, bool condition, Parts const&... parts) const {
    if (!condition) fail(key, parts...);
  }
  template <class... Parts>
  [[noreturn]] void fail(std::string_view key, Parts const&... parts) const {
    parallel::fail(location_of(key), ": ", full_name(key), ": ", parts...);
  }

  /// The value of a key that must be one of `words`; fails on any other.
  [[nodiscard]] std::string one_of(std::string_view key, std::string fallback,
                                   std::initializer_list<std::string_view> words);

  /// The location of the key's value, or of the mapping when the key is absent.
  [[nodiscard]] std::string const& location_of(std::string_view key) const;
  [[nodiscard]] std::string full_name(std::string_view key) const;
  [[nodiscard]] config_report& report() const { return *report_; }

  /// Fails on the first key that was not requested and suggests the nearest known key; with
  /// `list_supported` the message also lists the supported keys.
  void finish(bool list_supported = false) const;

 private:
  /// The full name of a known key named `key` in a section of this mapping, or "".
  [[nodiscard]] std::string known_key_below(std::string_view key) const;

  /// The keys of this mapping that are not refused.
  [[nodiscard]] std::string supported_keys() const;

  [[nodiscard]] bool is_present(std::string_view key) const;
  [[nodiscard]] config_node const* find(std::string_view key) const { return node_->find(key); }

  void register_key(std::string_view key, key_role role, std::string_view form = {});

  /// Adds to what the report says about a known key; empty texts change nothing.
  void document_key(std::string_view key, std::string_view form, std::string_view fallback,
                    std::string_view remark);

  [[nodiscard]] static std::string setting_text(bool value) { return value ? "true" : "false"; }
  [[nodiscard]] static std::string setting_text(std::string const& value) { return value; }
  [[nodiscard]] static std::string setting_text(time_value const& value) {
    return to_string(value);
  }
  template <class Number>
  [[nodiscard]] static std::string setting_text(Number value) {
    return parallel::concat(value);
  }

  /// Whether both are equal as text, as numbers or as booleans.
  [[nodiscard]] static bool same_scalar(config_node const& value, std::string_view word);

  template <class T>
  [[nodiscard]] T convert(std::string_view key, config_node const& value) const {
    auto const expected = [&](std::string_view form) {
      parallel::fail(value.location, ": ", full_name(key), ": expected ", form, ", found ",
                     describe(value));
    };
    if constexpr (std::same_as<T, std::string>) {
      if (!value.is_scalar()) expected(form_of<T>());
      return value.text;
    } else if constexpr (std::same_as<T, time_value>) {
      if (!value.is_scalar()) expected(form_of<T>());
      try {
        return parse_time(value.text);
      } catch (parallel::error const& problem) {
        parallel::fail(value.location, ": ", full_name(key), ": ", problem.what());
      }
    } else {
      constexpr bool is_bool = std::same_as<T, bool>;
      constexpr bool is_integer = std::same_as<T, std::int64_t>;
      std::optional<T> parsed;
      if (value.is_scalar() && !value.is_string) {
        if constexpr (is_bool) parsed = parse_bool(value.text);
        if constexpr (is_integer) parsed = parse_integer(value.text);
        if constexpr (!is_bool && !is_integer) parsed = parse_number(value.text);
      }
      if (!parsed) expected(form_of<T>());
      return *parsed;
    }
  }

  static inline config_node const nothing_{};

  config_node const* node_;
  std::string location_;  ///< reported for missing keys
  std::string path_;
  config_report* report_;
  std::vector<std::string> requested_keys_;
};

}  // namespace mpt

namespace mpt::detail {

/// The value of `names` that the key's word names; fails on any other word. `noun` describes the
/// value in the message ("a norm").
template <class Kind, std::size_t Size>
[[nodiscard]] Kind read_name(config_reader& reader, std::string_view key, std::string_view fallback,
                             std::array<std::pair<std::string_view, Kind>, Size> const& names,
                             std::string_view noun) {
  auto const word = reader.get<std::string>(key, std::string(fallback));
  std::string known;
  for (auto const& [name, kind] : names) {
    if (name == word) return kind;
    known.append(known.empty() ? "" : ", ").append(name);
  }
  reader.fail(key, "'", printable(word), "' is not ", noun, "; there are ", known);
}

}  // namespace mpt::detail
