// Initial values of many elements, computed by several threads of the host. The values do not
// depend on the number of threads. One thread computes about 25 million normal numbers a second, so
// a model of 7 billion parameters would take minutes.
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

/// The number of cores that the calling thread may run on, at least 1.
[[nodiscard]] inline std::size_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;  // more cores than cpu_set_t holds
  return static_cast<std::size_t>(std::max(1, CPU_COUNT(&set)));
}

/// initial_values by up to `threads` threads, each of which computes at least `min_elements`.
template <class U>
void initial_values_by(std::size_t threads, std::span<U> out, std::string_view name,
                       initializer const& initial, std::uint64_t seed, index begin,
                       std::size_t min_elements = std::size_t{1} << 18) {
  threads = std::clamp<std::size_t>(out.size() / min_elements, 1, threads);
  std::size_t const elements_per_thread = (out.size() + threads - 1) / threads;
  auto const fill = [=, &initial](std::size_t first) {
    auto const chunk = out.subspan(first, std::min(elements_per_thread, out.size() - first));
    initial_values(chunk, name, initial, seed, begin + static_cast<index>(first));
  };
  std::vector<std::jthread> helpers;
  for (std::size_t first = elements_per_thread; first < out.size(); first += elements_per_thread)
    helpers.emplace_back(fill, first);
  fill(0);
}

}  // namespace parallel
