// claim_file: the text of a folder's files `.lock-<generation>`: who writes there, and whether it
// lives.
//
// The text consists of lines with a key and a value. The last line, the beat, has a fixed length
// and is overwritten in place: a count that increases while the holder lives, then "ended". No
// clocks are compared: a program that reads twice sees whether the count increases.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/core/file.hpp>
#include <parallel/core/hexadecimal.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::checkpoint {

/// The parsed text of a claim; `text` is all of it.
struct claim_text {
  std::string text;
  std::string token;   ///< of this claim alone; empty: the text is only partly written
  std::string holder;  ///< for messages
  std::string scope;   ///< the scope in which `number` identifies a process (this_process.hpp)
  std::string number;
  std::string series;  ///< of programs that follow each other: see claim_options
  bool ended = false;

  [[nodiscard]] bool whole() const { return !token.empty(); }
};

namespace claim_files {

/// The beginning of a claim file's name, before its generation.
inline constexpr std::string_view name_head = ".lock-";
inline constexpr std::size_t beat_bytes = 20;  ///< "beat 0000000000000a\n"
/// The largest claim file that is read.
inline constexpr std::size_t most_bytes = 4096;

/// The claim file of a generation in a folder.
[[nodiscard]] inline std::filesystem::path file_of(std::filesystem::path const& folder,
                                                   index generation) {
  return folder / concat(name_head, generation);
}

/// The last line.
[[nodiscard]] inline std::string beat_text(std::uint64_t beats) {
  return concat("beat ", hexadecimal(beats).substr(2), "\n");
}
/// The last line of a claim whose holder has ended.
inline constexpr std::string_view ended_text = "beat ended         \n";
static_assert(ended_text.size() == beat_bytes);

/// The claim that a file's text states; without a token where the text is not whole.
[[nodiscard]] inline claim_text parse(std::string text) {
  claim_text claim;
  claim.text = std::move(text);
  std::string_view left = claim.text;
  auto const value = [&](std::string_view key) {
    auto const end = left.find('\n');
    if (end == std::string_view::npos || !left.starts_with(key))
      return std::optional<std::string>();
    auto const found = std::string(left.substr(key.size(), end - key.size()));
    left.remove_prefix(end + 1);
    return std::optional(found);
  };
  auto const token = value("token ");
  auto const holder = value("holder ");
  auto const scope = value("scope ");
  auto const number = value("number ");
  auto const series = value("series ");
  if (!series || left.size() != beat_bytes || !left.starts_with("beat ")) return claim;
  claim.token = *token;
  claim.holder = *holder;
  claim.scope = *scope;
  claim.number = *number;
  claim.series = *series;
  claim.ended = left == ended_text;
  return claim;
}

/// Replaces line ends, which a value must not hold.
[[nodiscard]] inline std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// The text of a new claim.
[[nodiscard]] inline std::string format(claim_text const& claim) {
  return concat("token ", claim.token, "\nholder ", one_line(claim.holder), "\nscope ",
                one_line(claim.scope), "\nnumber ", one_line(claim.number), "\nseries ",
                one_line(claim.series), "\n", beat_text(0));
}

/// The current content of the file; nullopt if there is no file, or another one replaces it
/// meanwhile. Opens the file again, so that the text comes from the shared disk.
[[nodiscard]] inline std::optional<claim_text> read(std::filesystem::path const& file) {
  descriptor const in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::string text(most_bytes, '\0');
  auto const got = in.get() < 0 ? -1 : ::pread(in.get(), text.data(), text.size(), 0);
  if (got < 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ESTALE) return std::nullopt;
    files::failure(file, "cannot read this file, which says who writes into its folder");
  }
  text.resize(static_cast<std::size_t>(got));
  return parse(std::move(text));
}

/// Overwrites the beat of a claim that has `bytes` bytes with `line`. Others see it when the file
/// is closed, on NFS too; nothing waits for the disk, which a large save may keep busy.
inline void write_beat(std::filesystem::path const& file, std::size_t bytes,
                       std::string_view line) {
  descriptor const out(::open(file.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (out.get() < 0 ||
      ::pwrite(out.get(), line.data(), line.size(), static_cast<::off_t>(bytes - beat_bytes)) !=
          static_cast<::ssize_t>(line.size()))
    files::failure(file, "cannot write this file, which says who writes into its folder");
}

/// The generations of the claims in `folder`, ascending.
[[nodiscard]] inline std::vector<index> generations(std::filesystem::path const& folder) {
  std::vector<index> out;
  for (auto const& path : files::list(folder)) {
    auto const name = path.filename().native();
    if (!name.starts_with(name_head)) continue;
    index generation = 0;
    auto const* const last = name.data() + name.size();
    auto const [end, bad] = std::from_chars(name.data() + name_head.size(), last, generation);
    if (bad == std::errc() && end == last && generation > 0) out.push_back(generation);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace claim_files

}  // namespace parallel::checkpoint
