// Prompts from a file: one a line of text, or {"prompt": ...} a line of JSON lines.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <string>
#include <utility>
#include <vector>

#include <mpt/data/byte_order_mark.hpp>
#include <mpt/data/byte_stream.hpp>
#include <mpt/data/document_reader.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <parallel/checkpoint/json.hpp>
#include <parallel/core/file.hpp>

namespace mpt {

struct file_prompt {
  std::string place;  ///< "file:line"
  std::string text;
};

/// The prompts of a file (.jsonl, .json or .ndjson, maybe .gz or .zst: JSON lines; anything else:
/// text of at most 64 MiB, empty lines skipped). Throws for a row without a "prompt", for text that
/// is no UTF-8, and when there is none.
[[nodiscard]] inline std::vector<file_prompt> read_prompts(std::filesystem::path const& file) {
  std::vector<file_prompt> out;
  data::document_reader reader(file);
  if (reader.format() == data::text_format::json_lines) {
    for (std::string row; reader.next(row);) {
      auto place = parallel::concat(reader.name(), ":", reader.line());
      auto const json = parallel::checkpoint::parse_json(row, place);
      auto const found = json.is_object() ? json.find("prompt") : json.end();
      parallel::require(json.is_object() && found != json.end() && found->is_string(), place,
                        ": expected an object with \"prompt\", a string");
      out.push_back({std::move(place), found->get<std::string>()});
    }
  } else {
    auto const text = parallel::read_text_file(file, std::uintmax_t{64} << 20);
    std::uint64_t line = 0;
    for (auto at = data::byte_order_mark(text, file.string()); at < text.size();) {
      auto const end = std::min(text.find('\n', at), text.size());
      auto one = text.substr(at, end - at);
      at = end + 1;
      ++line;
      if (one.ends_with('\r')) one.pop_back();
      auto place = parallel::concat(file.string(), ":", line);
      parallel::require(utf8::is_valid(one), place, ": is not UTF-8 text");
      if (!one.empty()) out.push_back({std::move(place), std::move(one)});
    }
  }
  parallel::require(!out.empty(), file.string(), ": holds no prompts");
  return out;
}

/// All of a stream, as one prompt: at most 64 MiB of UTF-8, without a byte order mark in front.
[[nodiscard]] inline std::string read_prompt(std::istream& in) {
  constexpr std::size_t most = std::size_t{64} << 20;
  std::string out;
  for (std::array<char, 1 << 16> piece{}; in.read(piece.data(), piece.size()), in.gcount() > 0;) {
    out.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    parallel::require(out.size() <= most,
                      "standard input: more than 64 MiB, too long for a prompt");
  }
  out.erase(0, data::byte_order_mark(out, "standard input"));
  parallel::require(utf8::is_valid(out), "standard input: is not UTF-8 text");
  return out;
}

}  // namespace mpt
