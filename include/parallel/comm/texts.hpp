// Strings between ranks: broadcast of one, gather to rank 0, gather to all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel {

/// Returns the text of `root` on every rank. Collective.
template <class Comm, class Exchange>
[[nodiscard]] std::string broadcast_text(Comm& comm, Exchange& exchanges, std::string text,
                                         int root = 0) {
  auto size = static_cast<std::int64_t>(text.size());
  comm.broadcast(exchanges, std::span<std::int64_t>(&size, 1), root).wait();
  text.resize(static_cast<std::size_t>(size));
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  comm.broadcast(exchanges, std::span<std::uint8_t>(bytes), root).wait();
  return {bytes.begin(), bytes.end()};
}

/// Returns every rank's text, by rank, on rank 0, and nothing on the others. Collective. Cost: each
/// text is sent once; rank 0 holds all of them, the other ranks only their own.
template <class Comm, class Exchange>
[[nodiscard]] std::vector<std::string> gather_texts_to_root(Comm& comm, Exchange& exchanges,
                                                            std::string const& text) {
  auto const size = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(comm.size()));
  comm.all_gather(exchanges, std::span<std::int64_t>(sizes),
                  std::span<std::int64_t const>(&size, 1))
      .wait();
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  if (comm.rank() != 0) {
    if (!bytes.empty()) comm.send(exchanges, std::span<std::uint8_t const>(bytes), 0).wait();
    return {};
  }
  std::vector<std::string> out{text};
  for (int from = 1; from < comm.size(); ++from) {
    bytes.resize(static_cast<std::size_t>(sizes[static_cast<std::size_t>(from)]));
    if (!bytes.empty()) comm.recv(exchanges, std::span<std::uint8_t>(bytes), from).wait();
    out.emplace_back(bytes.begin(), bytes.end());
  }
  return out;
}

/// Returns every rank's text, by rank, on every rank. Collective. Cost: every rank holds size()
/// times the length of the longest text; for long texts use `gather_texts_to_root`.
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
  std::vector<std::uint8_t> padded_text(text.begin(), text.end());
  padded_text.resize(longest);
  std::vector<std::uint8_t> padded_texts(longest * ranks);
  comm.all_gather(exchanges, std::span<std::uint8_t>(padded_texts),
                  std::span<std::uint8_t const>(padded_text))
      .wait();
  std::vector<std::string> out;
  for (std::size_t r = 0; r < ranks; ++r) {
    auto const begin = padded_texts.begin() + static_cast<std::ptrdiff_t>(r * longest);
    out.emplace_back(begin, begin + sizes[r]);
  }
  return out;
}

}  // namespace parallel
