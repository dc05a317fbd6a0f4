// JSON from untrusted files: depth and repeated keys are checked while parsing, and every field is
// looked up with its type, so that a bad file gives a sentence that names the location in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::checkpoint {

/// The deepest nesting that is accepted: recursion over parsed values stays shallow.
inline constexpr int max_json_depth = 64;

/// The message of a JSON parser without the prefix with its own name.
[[nodiscard]] inline std::string_view words_of(nlohmann::json::exception const& problem) {
  std::string_view const words = problem.what();
  auto const name = words.find("] ");
  return words.starts_with('[') && name != std::string_view::npos ? words.substr(name + 2) : words;
}

/// Throws when JSON that the parser accepted holds a zero byte. The parser takes one after the
/// value for the end of the text and ignores what follows, such as what a crash left in the file.
inline void require_no_zero_byte(std::string_view text, std::string_view location) {
  auto const position = text.find('\0');
  require(position == std::string_view::npos, location,
          ": not valid JSON: a zero byte follows the first ", position,
          " bytes, as a crash may leave; restore the file");
}

namespace detail {

/// Builds the values of JSON in one pass, and checks that it is well-formed, not too deep, and has
/// no key twice in an object.
class json_builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  /// Called with a complete value and its name, which is not kept.
  using value_taker = std::function<void(std::string const& name, nlohmann::json&& value)>;

  /// `take` gets the elements of the list that is the member `taken_list` of the whole, with that
  /// name, or, where no list is named, each member of the whole. Without `take` all is kept.
  explicit json_builder(std::string_view location, std::string_view taken_list = {},
                        value_taker take = {})
      : location_(location), taken_list_(taken_list), take_(std::move(take)) {}

  [[nodiscard]] nlohmann::json result() && { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, std::string const&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(nlohmann::json::binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(nlohmann::json::object()); }
  bool start_array(std::size_t) override { return open(nlohmann::json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    auto& members = opened_.back()->get_ref<nlohmann::json::object_t&>();
    auto const [position, is_new] = members.emplace(name, nullptr);
    require(is_new, location_, ": key \"", name, "\" appears twice in one object");
    member_ = &position->second;
    if (opened_.size() == 1) name_ = &position->first;
    return true;
  }
  bool parse_error(std::size_t, std::string const&,
                   nlohmann::json::exception const& problem) override {
    fail(location_, ": not valid JSON: ", words_of(problem));
  }

 private:
  /// Puts a value where the next one goes.
  nlohmann::json& put(nlohmann::json&& value) {
    if (opened_.empty()) return root_ = std::move(value);
    if (opened_.back()->is_object()) return *member_ = std::move(value);
    auto& elements = opened_.back()->get_ref<nlohmann::json::array_t&>();
    return elements.emplace_back(std::move(value));
  }
  bool add(nlohmann::json&& value) {
    put(std::move(value));
    take_value();
    return true;
  }
  bool open(nlohmann::json&& value) {
    require(opened_.size() < static_cast<std::size_t>(max_json_depth), location_,
            ": JSON nested deeper than ", max_json_depth);
    opened_.push_back(&put(std::move(value)));
    return true;
  }
  bool close() {
    opened_.pop_back();
    take_value();
    return true;
  }
  /// Hands over the value that is complete now, if it is one that is taken.
  void take_value() {
    if (!take_ || name_ == nullptr) return;
    if (taken_list_.empty() && opened_.size() == 1 && opened_.back()->is_object()) {
      take_(*name_, std::exchange(opened_.back()->at(*name_), nullptr));
    } else if (opened_.size() == 2 && opened_.back()->is_array() && *name_ == taken_list_) {
      take_(*name_, std::move(opened_.back()->back()));
      opened_.back()->clear();
    }
  }

  std::string_view location_, taken_list_;
  value_taker take_;
  nlohmann::json root_;
  std::vector<nlohmann::json*> opened_;  // the open objects and lists, the innermost last
  nlohmann::json* member_ = nullptr;     // where the value of the last key goes
  std::string const* name_ = nullptr;    // of the last member of the whole
};

/// The value that `builder` makes of `text`.
inline nlohmann::json build_json(std::string_view text, std::string_view location,
                                 json_builder builder) {
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  require_no_zero_byte(text, location);
  return std::move(builder).result();
}

}  // namespace detail

/// Parses `text`; `location` (a file, a place in it) begins every message. Throws on bad JSON,
/// nesting deeper than `max_json_depth`, and keys that occur twice in one object (readers would
/// differ on which of the two counts).
[[nodiscard]] inline nlohmann::json parse_json(std::string_view text, std::string_view location) {
  return detail::build_json(text, location, detail::json_builder(location));
}

/// The same, except that `take` gets values as soon as they are complete, which are not kept: the
/// elements of the list `taken_list` or, where that is empty, the members of the whole. A long list
/// takes no more memory than its largest element.
inline nlohmann::json parse_json_in_parts(std::string_view text, std::string_view location,
                                          std::string_view taken_list,
                                          detail::json_builder::value_taker take) {
  return detail::build_json(text, location,
                            detail::json_builder(location, taken_list, std::move(take)));
}

/// The member `key` of an object. Throws when `object` is not an object, or lacks the key.
[[nodiscard]] inline nlohmann::json const& member(nlohmann::json const& object,
                                                  std::string_view key, std::string_view location) {
  require(object.is_object(), location, ": expected a JSON object, found ", object.type_name());
  auto const found = object.find(key);
  require(found != object.end(), location, ": lacks \"", key, "\"");
  return *found;
}

/// The member `key` as a string.
[[nodiscard]] inline std::string const& string_member(nlohmann::json const& object,
                                                      std::string_view key,
                                                      std::string_view location) {
  auto const& value = member(object, key, location);
  require(value.is_string(), location, ": \"", key, "\" must be a string, not ", value.type_name());
  return value.get_ref<std::string const&>();
}

/// A whole number from 0 to 2^63 - 1.
[[nodiscard]] inline index natural(nlohmann::json const& value, std::string_view key,
                                   std::string_view location) {
  constexpr auto largest = static_cast<std::uint64_t>(INT64_MAX);
  require(value.is_number_unsigned() && value.get<std::uint64_t>() <= largest, location, ": \"",
          key, "\" must be a whole number from 0 to ", largest);
  return static_cast<index>(value.get<std::uint64_t>());
}

/// The member `key` as a whole number.
[[nodiscard]] inline index natural_member(nlohmann::json const& object, std::string_view key,
                                          std::string_view location) {
  return natural(member(object, key, location), key, location);
}

/// The same, for sizes and counts, which are of that type.
[[nodiscard]] inline std::uint64_t count_member(nlohmann::json const& object, std::string_view key,
                                                std::string_view location) {
  return static_cast<std::uint64_t>(natural_member(object, key, location));
}

/// The member `key`, which must be an array.
[[nodiscard]] inline nlohmann::json const& array_member(nlohmann::json const& object,
                                                        std::string_view key,
                                                        std::string_view location) {
  auto const& value = member(object, key, location);
  require(value.is_array(), location, ": \"", key, "\" must be an array, not ", value.type_name());
  return value;
}

/// The member `key` as the extents of a tensor: at most 16 whole numbers.
[[nodiscard]] inline std::vector<index> shape_member(nlohmann::json const& object,
                                                     std::string_view key,
                                                     std::string_view location) {
  auto const& value = array_member(object, key, location);
  require(value.size() <= 16, location, ": \"", key, "\" has ", value.size(),
          " dimensions, more than 16");
  std::vector<index> extents;
  for (auto const& extent : value) extents.push_back(natural(extent, key, location));
  return extents;
}

/// Compact JSON of `value`. Throws on strings that are not UTF-8.
[[nodiscard]] inline std::string dump_json(nlohmann::json const& value, std::string_view location) {
  try {
    return value.dump();
  } catch (nlohmann::json::exception const& problem) {
    fail(location, ": cannot be written as JSON: ", problem.what());
  }
}

}  // namespace parallel::checkpoint
