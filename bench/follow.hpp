// How a benchmark and its peers take turns: each says what it computed, then runs once for every
// line it is sent and answers with the seconds. So a driver alternates between programs, and what
// else the machine does meanwhile hits all of them alike. Seconds are processor time of all threads
// of the process.
#pragma once

#include <ctime>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

namespace bench {

/// Processor seconds this process has used.
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
