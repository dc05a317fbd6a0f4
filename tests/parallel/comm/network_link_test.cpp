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

}  // namespace network_link_test
