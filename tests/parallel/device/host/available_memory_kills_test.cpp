// memory_kills on fake /proc and /sys folders.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include <parallel/device/host/available_memory.hpp>

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
  [[nodiscard]] memory_kills kills() const { return count_memory_kills(root.path()); }
};

TEST_CASE("memory_kills: 0 if the system does not tell") {
  machine const fake_machine;
  auto const earlier = fake_machine.kills();
  CHECK(earlier.in_group == 0);
  CHECK(earlier.on_machine == 0);
  CHECK(fake_machine.kills().since(earlier).empty());
}

TEST_CASE("memory_kills: the group's count decides, whatever the machine's count is") {
  for (bool const second : {true, false}) {
    machine const fake_machine;
    fake_machine.write("proc/self/cgroup", second ? "0::/job/step\n" : "4:cpu,memory:/job/step\n");
    fake_machine.write("proc/vmstat", "pgfault 17\noom_kill 5\n");
    std::string const group = second ? "sys/fs/cgroup/job/step/memory.events"
                                     : "sys/fs/cgroup/memory/job/step/memory.oom_control";
    auto const killed = [&](int count) {
      fake_machine.write(
          group, "oom_kill_disable 9\nmax 3\noom 4\noom_kill " + std::to_string(count) + "\n");
    };
    killed(2);
    auto const earlier = fake_machine.kills();
    CHECK(earlier.in_group == 2);
    CHECK(earlier.on_machine == 5);
    CHECK(fake_machine.kills().since(earlier).empty());
    killed(3);
    fake_machine.write("proc/vmstat", "pgfault 18\noom_kill 6\n");
    CHECK(fake_machine.kills().since(earlier) == "its control group may use no more memory");
  }
}

TEST_CASE("memory_kills: parent groups count; else the machine's count decides") {
  machine const fake_machine;
  fake_machine.write("proc/self/cgroup", "0::/job/step\n");
  fake_machine.write("proc/vmstat", "oom_kill 5\n");
  fake_machine.write("sys/fs/cgroup/job/memory.events", "oom_kill 0\n");
  auto const earlier = fake_machine.kills();
  fake_machine.write("proc/vmstat", "oom_kill 6\n");
  CHECK(fake_machine.kills().since(earlier) == "the machine has no more memory");
  fake_machine.write("sys/fs/cgroup/job/memory.events", "oom_kill 1\n");
  CHECK(fake_machine.kills().since(earlier) == "its control group may use no more memory");
}

}  // namespace memory_kills_test
