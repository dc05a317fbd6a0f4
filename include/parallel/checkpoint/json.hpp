// JSON from files that nobody vouches for: depth and repeated keys are checked while parsing, and
// every field is looked up with its type, so that a bad file becomes a sentence that names the
// place in it.
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

/// Deepest nesting that is accepted: recursion over parsed values stays shallow.
inline constexpr int max_json_depth = 64;

/// What a JSON parser complains of, without its own name in front.
[[nodiscard]] inline std::string_view words_of(nlohmann::json::exception const& problem) {
  std::string_view const words = problem.what();
  auto const name = words.find("] ");
  return words.starts_with('[') && name != std::string_view::npos ? words.substr(name + 2) : words;
}

/// Parses `text`; `where` (a file, a place in it) opens every message. Throws on bad JSON, nesting
/// deeper than `max_json_depth`, and keys that stand twice in one object (readers would differ on
/// which of the two counts).
[[nodiscard]] inline nlohmann::json parse_json(std::string_view text, std::string_view where) {
  using nlohmann::json;
  std::vector<std::set<std::string>> keys;  // one set for each open object or array
  auto const check = [&](int depth, json::parse_event_t event, json& value) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        require(depth < max_json_depth, where, ": JSON nested deeper than ", max_json_depth);
        keys.emplace_back();
        break;
      case json::parse_event_t::object_end:
      case json::parse_event_t::array_end: keys.pop_back(); break;
      case json::parse_event_t::key:
        require(keys.back().insert(value.get_ref<std::string const&>()).second, where, ": key \"",
                value.get_ref<std::string const&>(), "\" stands twice in one object");
        break;
      default: break;
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), check);
  } catch (json::exception const& problem) {
    fail(where, ": not valid JSON: ", words_of(problem));
  }
}

/// The member `key` of an object. Throws when `object` is not one, or lacks it.
[[nodiscard]] inline nlohmann::json const& member(nlohmann::json const& object,
                                                  std::string_view key, std::string_view where) {
  require(object.is_object(), where, ": expected a JSON object, found ", object.type_name());
  auto const found = object.find(key);
  require(found != object.end(), where, ": lacks \"", key, "\"");
  return *found;
}

/// The member `key` as a string.
[[nodiscard]] inline std::string const& string_member(nlohmann::json const& object,
                                                      std::string_view key,
                                                      std::string_view where) {
  auto const& value = member(object, key, where);
  require(value.is_string(), where, ": \"", key, "\" must be a string, not ", value.type_name());
  return value.get_ref<std::string const&>();
}

/// A whole number from 0 to 2^63 - 1.
[[nodiscard]] inline index natural(nlohmann::json const& value, std::string_view what,
                                   std::string_view where) {
  constexpr auto largest = static_cast<std::uint64_t>(INT64_MAX);
  require(value.is_number_unsigned() && value.get<std::uint64_t>() <= largest, where, ": \"", what,
          "\" must be a whole number from 0 to ", largest);
  return static_cast<index>(value.get<std::uint64_t>());
}

/// The member `key` as a whole number.
[[nodiscard]] inline index natural_member(nlohmann::json const& object, std::string_view key,
                                          std::string_view where) {
  return natural(member(object, key, where), key, where);
}

/// The member `key` as an array.
[[nodiscard]] inline nlohmann::json const& array_member(nlohmann::json const& object,
                                                        std::string_view key,
                                                        std::string_view where) {
  auto const& value = member(object, key, where);
  require(value.is_array(), where, ": \"", key, "\" must be an array, not ", value.type_name());
  return value;
}

/// The member `key` as the extents of a tensor: at most 16 whole numbers.
[[nodiscard]] inline std::vector<index> shape_member(nlohmann::json const& object,
                                                     std::string_view key, std::string_view where) {
  auto const& value = array_member(object, key, where);
  require(value.size() <= 16, where, ": \"", key, "\" has ", value.size(),
          " dimensions, more than 16");
  std::vector<index> extents;
  for (auto const& extent : value) extents.push_back(natural(extent, key, where));
  return extents;
}

/// Compact JSON of `value`. Throws on strings that are not UTF-8.
[[nodiscard]] inline std::string dump_json(nlohmann::json const& value, std::string_view where) {
  try {
    return value.dump();
  } catch (nlohmann::json::exception const& problem) {
    fail(where, ": cannot be written as JSON: ", problem.what());
  }
}

}  // namespace parallel::checkpoint
