#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <parallel/comm/network/network_link.hpp>

#include "parallel/support/files.hpp"

namespace network_link_test {

using namespace parallel;
namespace fs = std::filesystem;

void write_line(fs::path const& file, std::string const& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text << "\n";
}

TEST_CASE("network link: the fastest interface that is up, unless an InfiniBand port is active") {
  test::temporary_folder const folder;
  auto const system = folder.path();
  CHECK(fastest_link(system).name.empty());
  write_line(system / "class/net/lo/operstate", "unknown");
  write_line(system / "class/net/eth0/operstate", "up");
  write_line(system / "class/net/eth0/speed", "10000");
  fs::create_directory(system / "class/net/eth0/device");
  write_line(system / "class/net/eth1/operstate", "down");
  write_line(system / "class/net/eth1/speed", "100000");
  write_line(system / "class/net/docker0/operstate", "up");
  write_line(system / "class/net/docker0/speed", "-1");
  CHECK(fastest_link(system).name == "eth0");
  CHECK(fastest_link(system).bytes_per_second == 1.25e9);
  CHECK_FALSE(fastest_link(system).infiniband);

  write_line(system / "class/infiniband/mlx5_0/ports/1/state", "1: DOWN");
  write_line(system / "class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  CHECK(fastest_link(system).name == "eth0");
  write_line(system / "class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE");
  write_line(system / "class/infiniband/mlx5_1/ports/1/rate", "2.5 Gb/sec (1X SDR)");
  CHECK(fastest_link(system).name == "mlx5_1");
  CHECK(fastest_link(system).bytes_per_second == 0.3125e9);
  CHECK(fastest_link(system).infiniband);
}

TEST_CASE("network link: interfaces without a device do not count, and a chosen one counts alone") {
  test::temporary_folder const folder;
  auto const net = folder.path() / "class/net";
  auto const up = [&](std::string const& name, std::string const& speed) {
    write_line(net / name / "operstate", "up");
    write_line(net / name / "speed", speed);
  };
  up("veth1a2b", "10000");
  up("docker0", "10000");
  fs::create_directory_symlink("../veth1a2b", net / "docker0/lower_veth1a2b");
  CHECK(fastest_link(folder.path()).name.empty());
  CHECK(fastest_link(folder.path(), "veth1a2b").name.empty());
  up("eth0", "1000");
  up("eth1", "25000");
  for (auto const* const name : {"eth0", "eth1"}) fs::create_directory(net / name / "device");
  CHECK(fastest_link(folder.path()).name == "eth1");
  CHECK(fastest_link(folder.path(), "eth0").name == "eth0");
  CHECK(fastest_link(folder.path(), "eth2").name.empty());
  up("bond0", "50000");
  fs::create_directory_symlink("../eth1", net / "bond0/lower_eth1");
  CHECK(fastest_link(folder.path()).name == "bond0");
  up("bond0.7", "60000");
  fs::create_directory_symlink("../bond0", net / "bond0.7/lower_bond0");
  CHECK(fastest_link(folder.path()).name == "bond0.7");
  write_line(folder.path() / "class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  write_line(folder.path() / "class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  CHECK(fastest_link(folder.path(), "eth0").name == "eth0");
}

}  // namespace network_link_test
