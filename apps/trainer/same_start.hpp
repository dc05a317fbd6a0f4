// Checks that ranks in separate processes were started with the same program and configuration.
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
#include <parallel/checkpoint/format/hash.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/hexadecimal.hpp>
#include <parallel/device/host/stream.hpp>

#include <launch/launch.hpp>

namespace apps {

/// Lines that describe how this process was started, which must be the same for ranks that train
/// together: the program, the configuration, the data (lines of `data`) and the overrides.
[[nodiscard]] inline std::vector<std::string> start_of(std::filesystem::path const& file,
                                                       std::vector<std::string> const& data,
                                                       std::vector<std::string> const& overrides) {
  auto const sum_of = [](std::filesystem::path const& path) {
    parallel::checkpoint::running_checksum sum;
    std::ifstream in(path, std::ios::binary);
    std::array<char, 65536> block;
    while (in.read(block.data(), block.size()) || in.gcount() > 0)
      sum.add(std::as_bytes(std::span(block).first(static_cast<std::size_t>(in.gcount()))));
    return parallel::hexadecimal(sum.value());
  };
  std::error_code unreadable;
  std::vector<std::string> out{"the program " + sum_of("/proc/self/exe"),
                               std::filesystem::is_regular_file(file, unreadable)
                                   ? file.string() + " " + sum_of(file)
                                   : "the configuration"};  // a pipe is read once
  out.insert(out.end(), data.begin(), data.end());
  for (auto const& word : overrides) out.push_back("'" + word + "'");
  return out;
}

/// Refuses ranks that were started differently: they would train, and hang or differ later.
/// Collective.
inline void check_same_start(std::vector<std::string> const& start,
                             parallel::any_communicator& comm) {
  std::string own_text;
  for (auto const& line : start) own_text += line + '\n';
  parallel::host::stream exchanges;
  auto const texts = parallel::gather_texts(comm, exchanges, own_text);
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts.front()) continue;
    auto const lines = [](std::string const& text) {
      std::vector<std::string> out;
      std::istringstream in(text);
      for (std::string line; std::getline(in, line);) out.push_back(line);
      return out;
    };
    auto const first = lines(texts.front());
    auto const other = lines(texts[rank]);
    std::size_t i = 0;
    while (i < std::min(first.size(), other.size()) && first[i] == other[i]) ++i;
    auto const line_of = [&](auto const& from) { return i < from.size() ? from[i] : "nothing"; };
    throw refusal(
        fmt::format("rank {} was started otherwise than rank 0: {} in the place of {}; start all "
                    "ranks with one "
                    "program, configuration, overrides and data",
                    rank, line_of(other), line_of(first)));
  }
}

}  // namespace apps
