// The load of a machine, by files as Linux writes them.
#include <chrono>
#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include <mpt/train/report/system_load.hpp>
#include <parallel/support/files.hpp>

namespace system_load_test {

using mpt::named_numbers;

TEST_CASE("system load: shares and rates are of the time between two readings") {
  using namespace std::chrono_literals;
  test::temporary_folder const folder;
  std::filesystem::create_directory(folder / "net");
  auto const write = [&](std::string const& ticks, std::string const& received,
                         std::string const& sent) {
    test::write_all(folder / "stat", "cpu  " + ticks + " 9 9\ncpu0 1 2 3 4 5 6 7 8 0 0\n");
    test::write_all(folder / "net/dev",
                    "Inter-|   Receive                    |  Transmit\n"
                    " face |bytes packets errs drop fifo frame compressed multicast|bytes packets\n"
                    "    lo: 5000 1 0 0 0 0 0 0 5000 1 0 0 0 0 0 0\n"
                    "  eth0:" +
                        received + " 1 0 0 0 0 0 0 " + sent +
                        " 1 0 0 0 0 0 0\n"
                        "   ib0: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n");
  };
  test::write_all(folder / "meminfo",
                  "MemTotal:  4000 kB\nMemFree: 1 kB\nMemAvailable:  1000 kB\n");
  write("100 0 100 800 0 0 0 0", "1000", "400");
  mpt::system_load::instant const begin{};
  mpt::system_load load(folder.path(), begin);
  write("130 10 150 880 20 5 5 0", "3000", "500");
  CHECK(load.read(begin + 2s) == named_numbers{{"cpu_share", 0.5},
                                               {"memory_share", 0.75},
                                               {"network_received_bytes_per_sec", 1000},
                                               {"network_sent_bytes_per_sec", 50}});
  write("130 10 150 980 20 5 5 0", "3000", "500");
  CHECK(load.read(begin + 3s) == named_numbers{{"cpu_share", 0},
                                               {"memory_share", 0.75},
                                               {"network_received_bytes_per_sec", 0},
                                               {"network_sent_bytes_per_sec", 0}});
}

TEST_CASE("system load: what the system does not tell is left out, and this machine tells some") {
  test::temporary_folder const folder;
  mpt::system_load silent(folder.path());
  CHECK(silent.read().empty());
  mpt::system_load here;
  for (auto const& one : here.read()) {
    CAPTURE(one.first);
    CHECK(one.second >= 0);
    if (one.first.ends_with("_share")) CHECK(one.second <= 1);
  }
}

}  // namespace system_load_test
