// The protocol between a driver and the benchmarks that it alternates: a benchmark prints its
// result, then runs once for every line of its input and answers with the seconds. Other load of
// the machine thereby affects all programs alike. Seconds are processor time of all threads of the
// process.
#pragma once

#include <ctime>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

namespace bench {

/// The processor seconds that this process has used.
[[nodiscard]] inline double processor_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Prints `result`, then the seconds of one `work()` for every line of standard input.
template <class Work>
void follow(nlohmann::ordered_json const& result, Work const& work) {
  std::cout << result.dump() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    auto const begin = processor_seconds();
    work();
    std::cout << nlohmann::json{{"seconds", processor_seconds() - begin}}.dump() << std::endl;
  }
}

}  // namespace bench
