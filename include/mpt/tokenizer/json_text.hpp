// Reading and writing the small text files of a tokenizer, trusting none.
//
// A file is read whole, up to a limit. JSON is parsed by nlohmann-json, with a limit on depth, and
// with repeated keys refused (the parser would keep the last one and say nothing). Files are
// written beside their place and renamed, so a reader, or a run that dies, never sees half of one.
// Cost: one copy of the file.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <parallel/core/error.hpp>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace mpt {

/// The most bytes a tokenizer's file may have.
inline constexpr std::uintmax_t largest_tokenizer_file = std::uintmax_t{256} << 20;

/// The deepest nesting a tokenizer's JSON may have.
inline constexpr std::size_t deepest_tokenizer_json = 16;

/// Reads a whole file. Errors: not there, not readable, larger than `largest_tokenizer_file`.
[[nodiscard]] inline std::string read_text_file(std::filesystem::path const& path) {
  std::error_code failure;
  parallel::require(std::filesystem::is_regular_file(path, failure), path.string(),
                    ": no such file (or not a regular one)");
  std::ifstream file(path, std::ios::binary);
  parallel::require(file.good(), path.string(), ": cannot be opened for reading");
  std::string text;
  char block[1 << 16];
  while (file.read(block, sizeof block), file.gcount() > 0) {
    text.append(block, static_cast<std::size_t>(file.gcount()));
    parallel::require(text.size() <= largest_tokenizer_file, path.string(), ": larger than ",
                      largest_tokenizer_file, " bytes, which no tokenizer's file is");
  }
  parallel::require(!file.bad(), path.string(), ": reading failed");
  return text;
}

/// Writes a whole file: first beside it, then renamed over it. Its folder must exist.
inline void write_text_file(std::filesystem::path const& path, std::string_view text) {
  auto beside = path;
  beside += ".part-" + std::to_string(::getpid());
  std::error_code ignored;
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (file.fail()) {
      std::filesystem::remove(beside, ignored);
      parallel::fail(path.string(),
                     ": cannot be written; is the folder there, writable, not full?");
    }
  }
  std::error_code failure;
  std::filesystem::rename(beside, path, failure);
  if (failure) {
    std::filesystem::remove(beside, ignored);
    parallel::fail(path.string(), ": cannot be replaced: ", failure.message());
  }
}

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
