#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <parallel/comm/network_link.hpp>

#include "parallel/support/files.hpp"

namespace network_link_test {

using namespace parallel;
namespace fs = std::filesystem;

void say(fs::path const& file, std::string const& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text << "\n";
}

TEST_CASE("the fastest interface that is up, unless there is InfiniBand that is active") {
  test::temporary_folder const folder;
  auto const system = folder.path();
  CHECK(fastest_link(system).name.empty());
  say(system / "class/net/lo/operstate", "unknown");
  say(system / "class/net/eth0/operstate", "up");
  say(system / "class/net/eth0/speed", "10000");
  fs::create_directory(system / "class/net/eth0/device");
  say(system / "class/net/eth1/operstate", "down");
  say(system / "class/net/eth1/speed", "100000");
  say(system / "class/net/docker0/operstate", "up");
  say(system / "class/net/docker0/speed", "-1");
  CHECK(fastest_link(system).name == "eth0");
  CHECK(fastest_link(system).bytes_per_second == 1.25e9);
  CHECK_FALSE(fastest_link(system).infiniband);

  say(system / "class/infiniband/mlx5_0/ports/1/state", "1: DOWN");
  say(system / "class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  CHECK(fastest_link(system).name == "eth0");
  say(system / "class/infiniband/mlx5_1/ports/1/state", "4: ACTIVE");
  say(system / "class/infiniband/mlx5_1/ports/1/rate", "2.5 Gb/sec (1X SDR)");
  CHECK(fastest_link(system).name == "mlx5_1");
  CHECK(fastest_link(system).bytes_per_second == 0.3125e9);
  CHECK(fastest_link(system).infiniband);
}

TEST_CASE("interfaces without a device below them say nothing, and one that is used alone counts") {
  test::temporary_folder const folder;
  auto const net = folder.path() / "class/net";
  auto const up = [&](std::string const& name, std::string const& speed) {
    say(net / name / "operstate", "up");
    say(net / name / "speed", speed);
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
  say(folder.path() / "class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  say(folder.path() / "class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  CHECK(fastest_link(folder.path(), "eth0").name == "eth0");
}

}  // namespace network_link_test
