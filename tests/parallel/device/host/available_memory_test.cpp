// How much memory a process may take, read from folders that play /proc and /sys.
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

/// A machine with 64 GiB left, and what a test writes beside that.
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

TEST_CASE("without control groups, what the machine has left") {
  machine const here;
  CHECK(here.available() == 64 * gib);
  here.write("proc/self/cgroup", "0::/\n");
  CHECK(here.available() == 64 * gib);
}

TEST_CASE("a system that does not tell") {
  machine const here;
  here.write("proc/meminfo", "MemTotal: 5 kB\nMemAvailable: many\n");
  CHECK(here.available() == 0);
  CHECK(available_memory(here.root / "nowhere") == 0);
}

TEST_CASE("a container's limit less what it uses, if that is less") {
  machine const here;
  here.write("proc/self/cgroup", "0::/\n");
  here.group("sys/fs/cgroup", bytes(8 * gib), "max", 3 * gib);
  CHECK(here.available() == 5 * gib);
  here.group("sys/fs/cgroup", bytes(80 * gib), "max", 3 * gib);
  CHECK(here.available() == 64 * gib);
  here.group("sys/fs/cgroup", "max", "max", 3 * gib);
  CHECK(here.available() == 64 * gib);
  // beyond memory.high a process is slowed down until others have given memory back
  here.group("sys/fs/cgroup", bytes(8 * gib), bytes(7 * gib), 3 * gib);
  CHECK(here.available() == 4 * gib);
  here.group("sys/fs/cgroup", "max", bytes(7 * gib), 3 * gib);
  CHECK(here.available() == 4 * gib);
}

TEST_CASE("pages of files in a container's use are given back; others are not") {
  machine const here;
  here.write("proc/self/cgroup", "0::/\n");
  here.group("sys/fs/cgroup", bytes(8 * gib), "max", 7 * gib);
  // of 5 GiB of file, 2 GiB lie in tmpfs, which stays
  here.write("sys/fs/cgroup/memory.stat", "anon 1\nfile " + bytes(5 * gib) + "\nshmem " +
                                              bytes(2 * gib) + "\ninactive_file " + bytes(gib) +
                                              "\nactive_file " + bytes(2 * gib) + "\n");
  CHECK(here.available() == 4 * gib);
  // counts are taken one after another, so they may not fit together
  here.write("sys/fs/cgroup/memory.stat", "inactive_file " + bytes(9 * gib) + "\n");
  CHECK(here.available() == 8 * gib);
}

TEST_CASE("a group is bound by those above it") {
  machine const here;
  here.write("proc/self/cgroup", "0::/jobs/17/step\n");
  here.group("sys/fs/cgroup/jobs/17/step", bytes(9 * gib), "max", gib);
  CHECK(here.available() == 8 * gib);
  here.group("sys/fs/cgroup/jobs/17", bytes(10 * gib), "max", 4 * gib);
  CHECK(here.available() == 6 * gib);
  here.group("sys/fs/cgroup/jobs/18", bytes(gib), "max", gib);  // a neighbour
  CHECK(here.available() == 6 * gib);
  // in a container, the folder above may be the container's, and others cannot be seen
  here.group("sys/fs/cgroup", bytes(2 * gib), "max", 0);
  CHECK(here.available() == 2 * gib);
}

TEST_CASE("control groups of version 1, alone and beside version 2") {
  machine const here;
  here.write("proc/self/cgroup",
             "9:name=systemd:/elsewhere\n5:cpu,memory:/docker/ab:c\n3:cpuset:/docker\n0::/\n");
  std::string const top = "sys/fs/cgroup/memory/";
  here.write(top + "memory.limit_in_bytes", "9223372036854771712\n");  // none
  here.write(top + "memory.usage_in_bytes", bytes(30 * gib));
  CHECK(here.available() == 64 * gib);
  std::string const own = top + "docker/ab:c/";
  here.write(own + "memory.limit_in_bytes", bytes(6 * gib) + "\n");
  here.write(own + "memory.usage_in_bytes", bytes(5 * gib) + "\n");
  here.write(own + "memory.stat", "inactive_file 1\ntotal_inactive_file " + bytes(gib) +
                                      "\ntotal_active_file " + bytes(2 * gib) + "\n");
  CHECK(here.available() == 4 * gib);
}

TEST_CASE("a container that is full leaves a page: 0 would say that nobody knows") {
  machine const here;
  here.write("proc/self/cgroup", "0::/\n");
  here.group("sys/fs/cgroup", bytes(gib), "max", 2 * gib);
  CHECK(here.available() == 4096);
}

TEST_CASE("files that are not what they should be are passed over") {
  machine const here;
  here.write("proc/self/cgroup", "\n:\n0:\nmemory\n0::/../x\n4:memory:relative\n");
  here.group("sys/fs/cgroup", "-5", "99999999999999999999999999", 1);
  CHECK(here.available() == 64 * gib);
}

TEST_CASE("this machine tells, and the device asks it") {
  auto const told = available_memory();
  if (told > 0) CHECK(parallel::host::device().available_bytes() > 0);
}

}  // namespace available_memory_test
