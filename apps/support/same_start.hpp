// Ranks that are processes of their own must have been started alike.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <parallel/checkpoint/hash.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/device/host/stream.hpp>

#include "support/launch.hpp"

namespace apps {

/// What this process was started with, a line each: what ranks that train together have in common.
/// `data`: lines of what it reads.
[[nodiscard]] inline std::vector<std::string> start_of(std::filesystem::path const& file,
                                                       std::vector<std::string> const& data,
                                                       std::vector<std::string> const& overrides) {
  auto const sum_of = [](std::filesystem::path const& path) {
    parallel::checkpoint::running_checksum sum;
    std::ifstream in(path, std::ios::binary);
    std::array<char, 65536> some;
    while (in.read(some.data(), some.size()) || in.gcount() > 0)
      sum.add(std::as_bytes(std::span(some).first(static_cast<std::size_t>(in.gcount()))));
    return parallel::checkpoint::checksum_text(sum.value());
  };
  std::error_code gone;
  std::vector<std::string> out{"the program " + sum_of("/proc/self/exe"),
                               std::filesystem::is_regular_file(file, gone)
                                   ? file.string() + " " + sum_of(file)
                                   : "the configuration"};  // a pipe is read once
  out.insert(out.end(), data.begin(), data.end());
  for (auto const& word : overrides) out.push_back("'" + word + "'");
  return out;
}

/// Ranks that processes were started for must have been started alike: else they train, and hang or
/// differ later. Collective.
inline void check_same_start(std::vector<std::string> const& start,
                             parallel::any_communicator& comm) {
  std::string mine;
  for (auto const& line : start) mine += line + '\n';
  parallel::host::stream exchanges;
  auto const all = parallel::gather_texts(comm, exchanges, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all.front()) continue;
    auto const lines = [](std::string const& text) {
      std::vector<std::string> out;
      std::istringstream in(text);
      for (std::string line; std::getline(in, line);) out.push_back(line);
      return out;
    };
    auto const first = lines(all.front());
    auto const other = lines(all[rank]);
    std::size_t i = 0;
    while (i < std::min(first.size(), other.size()) && first[i] == other[i]) ++i;
    auto const at = [&](auto const& from) { return i < from.size() ? from[i] : "nothing"; };
    throw refusal(
        fmt::format("rank {} was started otherwise than rank 0: {} in the place of {}; start all "
                    "ranks with one "
                    "program, configuration, overrides and data",
                    rank, at(other), at(first)));
  }
}

}  // namespace apps
