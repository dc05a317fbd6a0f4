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
#include <parallel/support/files.hpp>

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
    found[rank] = mpt::total_peak_rate<float>(devices[rank], compute, told, any, exchanges);
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

/// One rank's communicator.
template <class F>
void alone(F const& f) {
  parallel::threads::run(1, [&](auto& comm) {
    parallel::any_communicator any(std::move(comm));
    stream exchanges;
    f(any, exchanges);
  });
}

TEST_CASE("a peak measured while the machine was busy is measured again, and the larger counts") {
  alone([](auto& comm, auto& exchanges) {
    int measured = 0;
    mpt::watched_peak peak(100, std::string(mpt::watched_peak::measured), [&] {
      ++measured;
      return measured == 1 ? 400.0 : 300.0;
    });
    CHECK(peak.observe(60).empty());
    // 150 of 100: what the run does is less than the peak, whatever was measured
    CHECK(test::contains(peak.observe(150), "the run does 150 FLOP/s, more than the 100 of"));
    CHECK(peak.flops() == 150);
    CHECK(peak.source() == "what the run itself has done");
    CHECK(peak.observe(160).empty());  // said once
    CHECK(peak.flops() == 160);
    peak.remeasure_if_due(3, 0, 160, comm, exchanges);  // only after 1, 2, 4, 8, ... batches
    CHECK(measured == 0);
    peak.remeasure_if_due(4, 0, 160, comm, exchanges);
    CHECK(measured == 1);
    CHECK(peak.flops() == 400);
    CHECK(peak.source() == "measured matrix products");
    CHECK(peak.observe(160).empty());
    peak.remeasure_if_due(8, 1e3, 160, comm, exchanges);
    CHECK(peak.flops() == 400);
  });
}

TEST_CASE("a peak that nothing doubts is measured again only where that costs next to nothing") {
  alone([](auto& comm, auto& exchanges) {
    int measured = 0;
    mpt::watched_peak peak(100, "", [&] { return ++measured, 90.0; });
    peak.remeasure_if_due(1, 1, 50, comm, exchanges);
    peak.finish(50, comm, exchanges);
    CHECK(measured == 0);
    peak.remeasure_if_due(2, 7, 50, comm, exchanges);  // 6 s since then
    CHECK(measured == 1);
    peak.finish(95, comm, exchanges);  // training does not come so near to a true peak
    CHECK(measured == 2);
    CHECK(peak.flops() == 100);
    peak.finish(120, comm, exchanges);
    CHECK(peak.flops() == 120);
  });
}

TEST_CASE("a peak that is told or stated stays, and what is done beyond it is said once") {
  alone([](auto& comm, auto& exchanges) {
    mpt::watched_peak told(100, std::string(mpt::watched_peak::configured));
    CHECK(test::contains(told.observe(130), "correct callbacks.speed_monitor.gpu_flops_available"));
    CHECK(told.observe(130).empty());
    told.remeasure_if_due(1, 1e3, 130, comm, exchanges);
    told.finish(130, comm, exchanges);
    CHECK(told.flops() == 100);
    mpt::watched_peak stated(100, "data sheet");
    CHECK(test::contains(stated.observe(130), "which throughput/device/mfu_causal does not"));
  });
}

TEST_CASE("where a peak comes from is known: told, a data sheet, a measurement") {
  alone([](auto& comm, auto& exchanges) {
    gpu const known("one", 100);
    parallel::host::device const cpu;
    stream compute({.threads = 1});
    auto const of = [&](auto const& device, std::optional<double> told) {
      return mpt::watch_peak<float>(device, compute, told, comm, exchanges);
    };
    CHECK(of(known, {}).source() == "data sheet");
    CHECK(of(known, {}).flops() == 100);
    CHECK(of(cpu, 30).source() == "gpu_flops_available");
    CHECK(of(cpu, {}).source() == "measured matrix products");
    CHECK(cpu.peak_bytes() == 0);  // what the run has of its memory is its own alone
  });
}

}  // namespace matmul_rate_test
