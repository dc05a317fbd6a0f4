// JSON from untrusted files: depth and repeated keys are checked while parsing, and every field is
// looked up with its type, so that a bad file gives a sentence that names the location in it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
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

namespace detail {

/// Checks JSON without storing it: it is well-formed, not too deep, and has no key twice in an
/// object. (The same checks in a callback of json::parse would make lists of objects quadratic.)
class json_check : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit json_check(std::string_view location) : location_(location) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, std::string const&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(nlohmann::json::binary_t&) override { return true; }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    require(keys_.back().insert(name).second, location_, ": key \"", name,
            "\" appears twice in one object");
    return true;
  }
  bool parse_error(std::size_t, std::string const&,
                   nlohmann::json::exception const& problem) override {
    fail(location_, ": not valid JSON: ", words_of(problem));
  }

 private:
  bool open() {
    require(keys_.size() < static_cast<std::size_t>(max_json_depth), location_,
            ": JSON nested deeper than ", max_json_depth);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  std::string_view location_;
  std::vector<std::set<std::string>> keys_;  // the keys of each open object or list
};

}  // namespace detail

/// Parses `text`; `location` (a file, a place in it) begins every message. Throws on bad JSON,
/// nesting deeper than `max_json_depth`, and keys that occur twice in one object (readers would
/// differ on which of the two counts). Cost: the text is read twice.
[[nodiscard]] inline nlohmann::json parse_json(std::string_view text, std::string_view location) {
  detail::json_check check(location);
  nlohmann::json::sax_parse(text.begin(), text.end(), &check);
  try {
    return nlohmann::json::parse(text.begin(), text.end());
  } catch (nlohmann::json::exception const& problem) {
    fail(location, ": not valid JSON: ", words_of(problem));
  }
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
