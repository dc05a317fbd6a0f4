// The JSON of a tokenizer's files, which is not trusted.
//
// It is parsed by nlohmann-json, with a limit on depth, and with repeated keys refused (the parser
// would keep the last one and say nothing).
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <parallel/core/error.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace mpt {

/// The most bytes a tokenizer's file may have.
inline constexpr std::uintmax_t largest_tokenizer_file = std::uintmax_t{256} << 20;

/// The deepest nesting a tokenizer's JSON may have.
inline constexpr std::size_t deepest_tokenizer_json = 16;

/// Parses JSON of limited depth without repeated keys. `name` stands in errors for the file.
[[nodiscard]] inline nlohmann::json parse_json(std::string_view text, std::string_view name) {
  using event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects we are in
  std::size_t depth = 0;
  auto const check = [&](int, event happened, nlohmann::json& parsed) {
    switch (happened) {
      case event::object_start: keys.emplace_back(); [[fallthrough]];
      case event::array_start:
        parallel::require(++depth <= deepest_tokenizer_json, name, ": nested deeper than ",
                          deepest_tokenizer_json, " levels, which no tokenizer's file is");
        break;
      case event::object_end: keys.pop_back(); [[fallthrough]];
      case event::array_end: --depth; break;
      case event::key: {
        auto const& key = parsed.get_ref<std::string const&>();
        parallel::require(keys.back().insert(key).second, name, ": the key \"", key,
                          "\" stands twice in one object");
        break;
      }
      case event::value: break;
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), check);
  } catch (nlohmann::json::exception const& e) {
    parallel::fail(name, ": not valid JSON: ", std::string_view(e.what()));
  }
}

}  // namespace mpt
