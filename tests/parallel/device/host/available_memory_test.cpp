// available_memory on fake /proc and /sys folders.
#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <string>

#include <parallel/device/host/available_memory.hpp>
#include <parallel/device/host/device.hpp>

#include "parallel/support/files.hpp"

namespace available_memory_test {

using parallel::host::available_memory;

constexpr std::size_t gib = std::size_t{1} << 30;

/// A fake machine with 64 GiB available; tests write further files.
struct machine {
  test::temporary_folder root;

  machine() {
    write("proc/meminfo",
          "MemTotal:       131072000 kB\nMemFree:         1048576 kB\n"
          "MemAvailable:   67108864 kB\nBuffers:  1 kB\n");
  }
  void write(std::string const& file, std::string const& text) const {
    std::filesystem::create_directories((root / file).parent_path());
    test::write_all(root / file, text);
  }
  /// A group of version 2.
  void group(std::string const& folder, std::string const& max, std::string const& high,
             std::size_t used) const {
    write(folder + "/memory.max", max + "\n");
    write(folder + "/memory.high", high + "\n");
    write(folder + "/memory.current", std::to_string(used) + "\n");
    write(folder + "/memory.stat", "anon 5\nfile 99\ninactive_file 0\nactive_file 0\n");
  }
  [[nodiscard]] std::size_t available() const { return available_memory(root.path()); }
};

std::string bytes(std::size_t count) { return std::to_string(count); }

TEST_CASE("available_memory: without control groups, the machine's available memory") {
  machine const fake_machine;
  CHECK(fake_machine.available() == 64 * gib);
  fake_machine.write("proc/self/cgroup", "0::/\n");
  CHECK(fake_machine.available() == 64 * gib);
}

TEST_CASE("available_memory: 0 if the system does not tell") {
  machine const fake_machine;
  fake_machine.write("proc/meminfo", "MemTotal: 5 kB\nMemAvailable: many\n");
  CHECK(fake_machine.available() == 0);
  CHECK(available_memory(fake_machine.root / "nowhere") == 0);
}

TEST_CASE("available_memory: a container's limit less its use, if that is less") {
  machine const fake_machine;
  fake_machine.write("proc/self/cgroup", "0::/\n");
  fake_machine.group("sys/fs/cgroup", bytes(8 * gib), "max", 3 * gib);
  CHECK(fake_machine.available() == 5 * gib);
  fake_machine.group("sys/fs/cgroup", bytes(80 * gib), "max", 3 * gib);
  CHECK(fake_machine.available() == 64 * gib);
  fake_machine.group("sys/fs/cgroup", "max", "max", 3 * gib);
  CHECK(fake_machine.available() == 64 * gib);
  // beyond memory.high a process is throttled
  fake_machine.group("sys/fs/cgroup", bytes(8 * gib), bytes(7 * gib), 3 * gib);
  CHECK(fake_machine.available() == 4 * gib);
  fake_machine.group("sys/fs/cgroup", "max", bytes(7 * gib), 3 * gib);
  CHECK(fake_machine.available() == 4 * gib);
}

TEST_CASE("available_memory: cached pages of files count as available; others do not") {
  machine const fake_machine;
  fake_machine.write("proc/self/cgroup", "0::/\n");
  fake_machine.group("sys/fs/cgroup", bytes(8 * gib), "max", 7 * gib);
  // 2 of the 5 GiB of file pages are in tmpfs, which cannot be reclaimed
  fake_machine.write("sys/fs/cgroup/memory.stat", "anon 1\nfile " + bytes(5 * gib) + "\nshmem " +
                                                      bytes(2 * gib) + "\ninactive_file " +
                                                      bytes(gib) + "\nactive_file " +
                                                      bytes(2 * gib) + "\n");
  CHECK(fake_machine.available() == 4 * gib);
  // the system reads the counts one after another, so they may be inconsistent
  fake_machine.write("sys/fs/cgroup/memory.stat", "inactive_file " + bytes(9 * gib) + "\n");
  CHECK(fake_machine.available() == 8 * gib);
}

TEST_CASE("available_memory: the limits of parent groups apply") {
  machine const fake_machine;
  fake_machine.write("proc/self/cgroup", "0::/jobs/17/step\n");
  fake_machine.group("sys/fs/cgroup/jobs/17/step", bytes(9 * gib), "max", gib);
  CHECK(fake_machine.available() == 8 * gib);
  fake_machine.group("sys/fs/cgroup/jobs/17", bytes(10 * gib), "max", 4 * gib);
  CHECK(fake_machine.available() == 6 * gib);
  fake_machine.group("sys/fs/cgroup/jobs/18", bytes(gib), "max", gib);  // a sibling group
  CHECK(fake_machine.available() == 6 * gib);
  // in a container only the topmost folder may be visible
  fake_machine.group("sys/fs/cgroup", bytes(2 * gib), "max", 0);
  CHECK(fake_machine.available() == 2 * gib);
}

TEST_CASE("available_memory: control groups of version 1, alone and with version 2") {
  machine const fake_machine;
  fake_machine.write(
      "proc/self/cgroup",
      "9:name=systemd:/elsewhere\n5:cpu,memory:/docker/ab:c\n3:cpuset:/docker\n0::/\n");
  std::string const top = "sys/fs/cgroup/memory/";
  fake_machine.write(top + "memory.limit_in_bytes", "9223372036854771712\n");  // no limit
  fake_machine.write(top + "memory.usage_in_bytes", bytes(30 * gib));
  CHECK(fake_machine.available() == 64 * gib);
  std::string const container = top + "docker/ab:c/";
  fake_machine.write(container + "memory.limit_in_bytes", bytes(6 * gib) + "\n");
  fake_machine.write(container + "memory.usage_in_bytes", bytes(5 * gib) + "\n");
  fake_machine.write(container + "memory.stat", "inactive_file 1\ntotal_inactive_file " +
                                                    bytes(gib) + "\ntotal_active_file " +
                                                    bytes(2 * gib) + "\n");
  CHECK(fake_machine.available() == 4 * gib);
}

TEST_CASE("available_memory: a full container leaves a page, since 0 means unknown") {
  machine const fake_machine;
  fake_machine.write("proc/self/cgroup", "0::/\n");
  fake_machine.group("sys/fs/cgroup", bytes(gib), "max", 2 * gib);
  CHECK(fake_machine.available() == 4096);
}

TEST_CASE("available_memory: malformed files are ignored") {
  machine const fake_machine;
  fake_machine.write("proc/self/cgroup", "\n:\n0:\nmemory\n0::/../x\n4:memory:relative\n");
  fake_machine.group("sys/fs/cgroup", "-5", "99999999999999999999999999", 1);
  CHECK(fake_machine.available() == 64 * gib);
}

TEST_CASE("available_memory: the device returns this machine's value") {
  auto const available = available_memory();
  if (available > 0) CHECK(parallel::host::device().available_bytes() > 0);
}

}  // namespace available_memory_test
