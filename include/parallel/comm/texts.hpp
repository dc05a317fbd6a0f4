// Strings between ranks: what rank 0 says to all, and what each rank says to all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace parallel {

/// Rank 0's text, on every rank. Collective.
template <class Comm, class Exchange>
[[nodiscard]] std::string broadcast_text(Comm& comm, Exchange& exchanges, std::string text) {
  auto size = static_cast<std::int64_t>(text.size());
  comm.broadcast(exchanges, std::span<std::int64_t>(&size, 1), 0).wait();
  text.resize(static_cast<std::size_t>(size));
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  comm.broadcast(exchanges, std::span<std::uint8_t>(bytes), 0).wait();
  return {bytes.begin(), bytes.end()};
}

/// Every rank's text by rank, on every rank. Collective.
template <class Comm, class Exchange>
[[nodiscard]] std::vector<std::string> gather_texts(Comm& comm, Exchange& exchanges,
                                                    std::string const& text) {
  auto const ranks = static_cast<std::size_t>(comm.size());
  auto const size = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> sizes(ranks);
  comm.all_gather(exchanges, std::span<std::int64_t>(sizes),
                  std::span<std::int64_t const>(&size, 1))
      .wait();
  auto const longest = static_cast<std::size_t>(*std::ranges::max_element(sizes));
  std::vector<std::uint8_t> mine(text.begin(), text.end());
  mine.resize(longest);
  std::vector<std::uint8_t> all(longest * ranks);
  comm.all_gather(exchanges, std::span<std::uint8_t>(all), std::span<std::uint8_t const>(mine))
      .wait();
  std::vector<std::string> out;
  for (std::size_t r = 0; r < ranks; ++r) {
    auto const begin = all.begin() + static_cast<std::ptrdiff_t>(r * longest);
    out.emplace_back(begin, begin + sizes[r]);
  }
  return out;
}

}  // namespace parallel
