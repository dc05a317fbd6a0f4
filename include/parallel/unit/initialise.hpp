// Initial values of many elements by many threads of the host: the same numbers, sooner. One thread
// makes some 25 million normal numbers a second, of which a model of 7 billion parameters would be
// waiting for minutes.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include <parallel/core/parameter.hpp>

namespace parallel {

/// Cores that the calling thread may run on, at least 1.
[[nodiscard]] inline std::size_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;  // more cores than a set can tell
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
}

/// initial_values by up to `threads` threads, each of which has at least `least` elements.
template <class U>
void initial_values_by(std::size_t threads, std::span<U> out, std::string_view name,
                       initializer const& initial, std::uint64_t seed, index begin,
                       std::size_t least = std::size_t{1} << 18) {
  threads = std::clamp<std::size_t>(out.size() / least, 1, threads);
  std::size_t const each = (out.size() + threads - 1) / threads;
  auto const fill = [=, &initial](std::size_t first) {
    auto const part = out.subspan(first, std::min(each, out.size() - first));
    initial_values(part, name, initial, seed, begin + static_cast<index>(first));
  };
  std::vector<std::jthread> helpers;
  for (std::size_t first = each; first < out.size(); first += each)
    helpers.emplace_back(fill, first);
  fill(0);
}

}  // namespace parallel
