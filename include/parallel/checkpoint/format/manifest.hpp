// The manifest: what a checkpoint holds. A checkpoint exists if and only if it has a valid one.
//
// JSON: "format", "version", the version of the library that wrote it ("library"; older manifests
// have none), the run of the folder that wrote it ("writer"), the program's own "state", the files
// with their sizes, the tensors with their slices, and as its last line a checksum of everything
// before that line, so that a partial or damaged manifest is never taken for a whole one.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <parallel/checkpoint/format/hash.hpp>
#include <parallel/checkpoint/format/json.hpp>
#include <parallel/checkpoint/format/slice.hpp>
#include <parallel/checkpoint/format/tiling.hpp>
#include <parallel/checkpoint/save_target.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/hexadecimal.hpp>
#include <parallel/core/version.hpp>

namespace parallel::checkpoint {

/// The name of a checkpoint's manifest in its folder.
inline constexpr std::string_view manifest_name = "manifest.json";
/// The "format" that a manifest states.
inline constexpr std::string_view manifest_format = "parallel.checkpoint";
inline constexpr index manifest_version = 2;  ///< 2: slices of columns (run, stride)
/// The largest manifest that is read.
inline constexpr std::uint64_t max_manifest_bytes = std::uint64_t{1} << 30;

/// A parsed manifest; the slices are known to tile their tensors.
struct manifest {
  nlohmann::json
      state;  ///< an object: what the program stored about its step, schedule and data position
  slice_set slices;
  claim_id writer = {};  ///< the claim of the folder under which it was written; generation 0: none
};

namespace detail {
inline constexpr std::string_view checksum_head = ",\n \"checksum\": \"";
inline constexpr std::string_view checksum_tail = "\"}\n";
}  // namespace detail

/// The text of a manifest.
[[nodiscard]] inline std::string format_manifest(manifest const& value, std::string_view location) {
  auto out = concat("{\n \"format\": \"", manifest_format, "\",\n \"version\": ", manifest_version,
                    ",\n \"library\": \"", to_string(library_version), "\",\n");
  if (value.writer.generation > 0)
    out += concat(" \"writer\": {\"generation\": ", value.writer.generation, ", \"token\": \"",
                  hexadecimal(value.writer.token), "\"},\n");
  out += concat(" \"state\": ", dump_json(value.state, location), ",\n",
                format_slices(value.slices, location));
  auto const sum = checksum(std::string_view(out));
  return concat(out, detail::checksum_head, hexadecimal(sum), detail::checksum_tail);
}

/// Whether a manifest's text ends in the checksum of the text before it, as `commit` wrote it.
[[nodiscard]] inline bool is_whole_manifest(std::string_view text) {
  constexpr auto tail = detail::checksum_head.size() + 16 + detail::checksum_tail.size();
  if (text.size() < tail) return false;
  auto const body = text.substr(0, text.size() - tail);
  return text.substr(body.size()) ==
         concat(detail::checksum_head, hexadecimal(checksum(body)), detail::checksum_tail);
}

/// Parses and checks a manifest; `location` (its file) begins every message.
[[nodiscard]] inline manifest parse_manifest(std::string_view text, std::string_view location) {
  require(is_whole_manifest(text), location,
          ": does not end in the checksum of its content; it is cut short or damaged; use another "
          "checkpoint");
  auto json = parse_json(text, location);
  require(string_member(json, "format", location) == manifest_format, location,
          ": its format is not \"", manifest_format, "\"");
  auto const version = natural_member(json, "version", location);
  require(1 <= version && version <= manifest_version, location, ": is of version ", version,
          json.contains("library")
              ? concat(", written by ParallelLM ", string_member(json, "library", location))
              : std::string(),
          ", this program reads 1 to ", manifest_version);
  manifest out;
  require(member(json, "state", location).is_object(), location, ": \"state\" must be an object");
  out.state = std::move(json["state"]);
  if (json.contains("writer")) {
    auto const& writer = json["writer"];
    out.writer.generation = natural_member(writer, "generation", location);
    out.writer.token = detail::parse_checksum(string_member(writer, "token", location), location);
  }
  add_slices(out.slices, json, location);
  check_tiling(out.slices, location);
  return out;
}

/// The text of a checkpoint folder's manifest.
[[nodiscard]] inline std::string read_manifest_text(std::filesystem::path const& folder) {
  return read_text_file(folder / manifest_name, max_manifest_bytes);
}

/// Refuses a file of a checkpoint that has another size than the manifest says.
inline void require_bytes(std::filesystem::path const& file, std::uint64_t found,
                          std::uint64_t expected) {
  require(found == expected, file.native(), ": has ", found, " bytes, the manifest says ", expected,
          ": it is cut short or damaged; use another checkpoint");
}

/// Reads a checkpoint folder's manifest and checks that every file it names exists in full size,
/// without opening it.
[[nodiscard]] inline manifest read_manifest(std::filesystem::path const& folder) {
  auto out = parse_manifest(read_manifest_text(folder), (folder / manifest_name).native());
  for (auto const& [name, bytes] : out.slices.files) {
    std::error_code problem;
    auto const found = std::filesystem::file_size(folder / name, problem);
    if (problem) files::failure(folder / name, "cannot read the size of", problem.value());
    require_bytes(folder / name, found, bytes);
  }
  return out;
}

}  // namespace parallel::checkpoint
