// Processes that the system has killed for want of memory, counted in folders that play /proc and
// /sys.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <parallel/device/host/memory_kills.hpp>

#include "parallel/support/files.hpp"

namespace memory_kills_test {

using parallel::host::count_memory_kills;
using parallel::host::memory_kills;

struct machine {
  test::temporary_folder root;

  void write(std::string const& file, std::string const& text) const {
    std::filesystem::create_directories((root / file).parent_path());
    test::write_all(root / file, text);
  }
  [[nodiscard]] memory_kills now() const { return count_memory_kills(root.path()); }
};

TEST_CASE("a system that does not tell has killed nobody") {
  machine const here;
  auto const before = here.now();
  CHECK(before.in_group == 0);
  CHECK(before.on_machine == 0);
  CHECK(here.now().since(before).empty());
}

TEST_CASE("a group's own count says that its limit was the cause, whatever the machine's says") {
  for (bool const second : {true, false}) {
    machine const here;
    here.write("proc/self/cgroup", second ? "0::/job/step\n" : "4:cpu,memory:/job/step\n");
    here.write("proc/vmstat", "pgfault 17\noom_kill 5\n");
    std::string const group = second ? "sys/fs/cgroup/job/step/memory.events"
                                     : "sys/fs/cgroup/memory/job/step/memory.oom_control";
    auto const killed = [&](int count) {
      here.write(group,
                 "oom_kill_disable 9\nmax 3\noom 4\noom_kill " + std::to_string(count) + "\n");
    };
    killed(2);
    auto const before = here.now();
    CHECK(before.in_group == 2);
    CHECK(before.on_machine == 5);
    CHECK(here.now().since(before).empty());
    killed(3);
    here.write("proc/vmstat", "pgfault 18\noom_kill 6\n");
    CHECK(here.now().since(before) == "its control group may use no more memory");
  }
}

TEST_CASE("a group above counts, and the machine where no group does") {
  machine const here;
  here.write("proc/self/cgroup", "0::/job/step\n");
  here.write("proc/vmstat", "oom_kill 5\n");
  here.write("sys/fs/cgroup/job/memory.events", "oom_kill 0\n");
  auto const before = here.now();
  here.write("proc/vmstat", "oom_kill 6\n");
  CHECK(here.now().since(before) == "the machine has no more memory");
  here.write("sys/fs/cgroup/job/memory.events", "oom_kill 1\n");
  CHECK(here.now().since(before) == "its control group may use no more memory");
}

}  // namespace memory_kills_test
