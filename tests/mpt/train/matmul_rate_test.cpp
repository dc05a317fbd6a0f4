// The peak that utilisation is measured against: each device once, whatever the ranks share.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mpt/train/matmul_rate.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

namespace matmul_rate_test {

using parallel::host::stream;

/// Plays a GPU whose data sheet is known.
struct gpu : parallel::host::device {
  gpu(std::string identity, double flops) : name(std::move(identity)), peak(flops) {}

  [[nodiscard]] std::string identity() const { return name; }
  [[nodiscard]] double peak_flops(parallel::dtype type) const {
    return type == parallel::dtype::f32 ? peak : 0;
  }

  std::string name;
  double peak;
};

/// The peak that ranks on these devices find; all find the same.
template <class Device>
double peak_of(std::vector<Device> const& devices, std::optional<double> told = {}) {
  std::vector<double> found(devices.size());
  parallel::threads::run(static_cast<int>(devices.size()), [&](auto& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    parallel::any_communicator any(std::move(comm));
    stream compute({.threads = 1}), exchanges;
    found[rank] = mpt::peak_of_devices<float>(devices[rank], compute, told, any, exchanges);
  });
  for (double const one : found) CHECK(one == found.front());
  return found.front();
}

TEST_CASE("a GPU that ranks share counts once") {
  gpu const one("one", 100), other("other", 7);
  CHECK(peak_of<gpu>({one}) == 100);
  CHECK(peak_of<gpu>({one, one, one}) == 100);
  CHECK(peak_of<gpu>({one, other}) == 107);
  CHECK(peak_of<gpu>({one, other, other, one, one}) == 107);
  // two of a kind are two
  CHECK(peak_of<gpu>({one, gpu("another", 100)}) == 200);
}

TEST_CASE("what the user tells is told of each device: a GPU, or a rank's part of a CPU") {
  gpu const one("one", 100), other("other", 7);
  CHECK(peak_of<gpu>({one, other, other}, 30) == 60);
  using parallel::host::device;
  CHECK(peak_of<device>(std::vector<device>(3), 30) == 90);
}

TEST_CASE("what no device states is measured") {
  CHECK(peak_of<parallel::host::device>({parallel::host::device()}) > 1e6);
}

}  // namespace matmul_rate_test
