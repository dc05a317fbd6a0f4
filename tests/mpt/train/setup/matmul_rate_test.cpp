// The peak that utilisation is measured against counts each device once, also if ranks share it.
#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mpt/train/setup/matmul_rate.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/support/files.hpp>

namespace matmul_rate_test {

using parallel::host::stream;

/// A fake GPU with the peak of a data sheet.
struct gpu : parallel::host::device {
  gpu(std::string identity, double flops) : name(std::move(identity)), peak(flops) {}

  [[nodiscard]] std::string identity() const { return name; }
  [[nodiscard]] double peak_flops(parallel::dtype type) const {
    return type == parallel::dtype::f32 ? peak : 0;
  }

  std::string name;
  double peak;
};

/// Returns the peak that ranks on these devices find, and checks that all find the same.
template <class Device>
double peak_of(std::vector<Device> const& devices, std::optional<double> configured_flops = {}) {
  std::vector<double> found(devices.size());
  parallel::threads::run(static_cast<int>(devices.size()), [&](auto& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    parallel::any_communicator any(std::move(comm));
    stream compute({.threads = 1}), exchanges;
    found[rank] =
        mpt::total_peak_rate<float>(devices[rank], compute, configured_flops, any, exchanges);
  });
  for (double const peak : found) CHECK(peak == found.front());
  return found.front();
}

TEST_CASE("peak of devices: a GPU that ranks share counts once") {
  gpu const one("one", 100), other("other", 7);
  CHECK(peak_of<gpu>({one}) == 100);
  CHECK(peak_of<gpu>({one, one, one}) == 100);
  CHECK(peak_of<gpu>({one, other}) == 107);
  CHECK(peak_of<gpu>({one, other, other, one, one}) == 107);
  // two GPUs of one kind are two
  CHECK(peak_of<gpu>({one, gpu("another", 100)}) == 200);
}

TEST_CASE("peak of devices: a user's value is that of each GPU, or of each rank's part of a CPU") {
  gpu const one("one", 100), other("other", 7);
  CHECK(peak_of<gpu>({one, other, other}, 30) == 60);
  using parallel::host::device;
  CHECK(peak_of<device>(std::vector<device>(3), 30) == 90);
}

TEST_CASE("peak of devices: a peak that no device states is measured") {
  CHECK(peak_of<parallel::host::device>({parallel::host::device()}) > 1e6);
}

/// Calls f(communicator, stream) on a single rank.
template <class F>
void with_one_rank(F const& f) {
  parallel::threads::run(1, [&](auto& comm) {
    parallel::any_communicator any(std::move(comm));
    stream exchanges;
    f(any, exchanges);
  });
}

TEST_CASE("watched peak: a peak measured on a busy machine is measured again; the larger counts") {
  with_one_rank([](auto& comm, auto& exchanges) {
    int measurements = 0;
    mpt::watched_peak peak(100, std::string(mpt::watched_peak::measured), [&] {
      ++measurements;
      return measurements == 1 ? 400.0 : 300.0;
    });
    CHECK(peak.observe(60).empty());
    // The run does 150 where 100 was measured, so that the true peak must be larger.
    CHECK(test::contains(peak.observe(150), "the run does 150 FLOP/s, more than the 100 of"));
    CHECK(peak.flops() == 150);
    CHECK(peak.source() == "what the run itself has done");
    CHECK(peak.observe(160).empty());  // reported only once
    CHECK(peak.flops() == 160);
    peak.update(3, 2, 160, comm, exchanges);  // only after 1, 2, 4, 8, ... batches
    CHECK(measurements == 0);
    peak.update(4, 2, 160, comm, exchanges);
    CHECK(measurements == 1);
    CHECK(peak.flops() == 400);
    CHECK(peak.source() == "measured matrix products");
    CHECK(peak.observe(160).empty());
    peak.update(8, 1e3, 160, comm, exchanges);
    CHECK(peak.flops() == 400);
  });
}

TEST_CASE(
    "watched peak: a plausible peak is measured again only where that costs next to nothing") {
  with_one_rank([](auto& comm, auto& exchanges) {
    int measurements = 0;
    mpt::watched_peak peak(100, "", [&] { return ++measurements, 90.0; });
    peak.update(1, 1, 50, comm, exchanges);
    peak.finish(1, 50, comm, exchanges);
    CHECK(measurements == 0);
    peak.update(2, 7, 50, comm, exchanges);  // 7 s for 0.1 s
    CHECK(measurements == 1);
    peak.finish(9, 95, comm, exchanges);  // training does not come this close to a true peak
    CHECK(measurements == 2);
    CHECK(peak.flops() == 100);
    peak.finish(9, 120, comm, exchanges);
    CHECK(peak.flops() == 120);
    CHECK(measurements == 2);
  });
}

TEST_CASE("watched peak: a run of seconds is not held up to measure a doubtful peak again") {
  with_one_rank([](auto& comm, auto& exchanges) {
    int measurements = 0;
    auto const measure = [&] { return ++measurements, 90.0; };
    mpt::watched_peak peak(100, "", measure, 0.5);  // as the first one took
    for (int batch = 1; batch <= 64; batch *= 2) {
      static_cast<void>(peak.observe(100 + batch));
      peak.update(batch, 0.05 * batch, 100 + batch, comm, exchanges);
    }
    peak.finish(3.3, 170, comm, exchanges);
    CHECK(measurements == 0);
    CHECK(peak.flops() == 170);
    peak.finish(6, 170, comm, exchanges);
    CHECK(measurements == 1);
  });
}

TEST_CASE("watched peak: a user's or data sheet's peak stays, and exceeding it is reported once") {
  with_one_rank([](auto& comm, auto& exchanges) {
    mpt::watched_peak configured_peak(100, std::string(mpt::watched_peak::configured));
    CHECK(test::contains(configured_peak.observe(130),
                         "correct callbacks.speed_monitor.gpu_flops_available"));
    CHECK(configured_peak.observe(130).empty());
    configured_peak.update(1, 1e3, 130, comm, exchanges);
    configured_peak.finish(1e3, 130, comm, exchanges);
    CHECK(configured_peak.flops() == 100);
    mpt::watched_peak stated_peak(100, "data sheet");
    CHECK(test::contains(stated_peak.observe(130), "which throughput/device/mfu_causal does not"));
  });
}

TEST_CASE("watched peak: its source is the user, a data sheet or a measurement") {
  with_one_rank([](auto& comm, auto& exchanges) {
    gpu const known("one", 100);
    parallel::host::device const cpu;
    stream compute({.threads = 1});
    auto const watch = [&](auto const& device, std::optional<double> configured_flops) {
      return mpt::watch_peak<float>(device, compute, configured_flops, comm, exchanges);
    };
    CHECK(watch(known, {}).source() == "data sheet");
    CHECK(watch(known, {}).flops() == 100);
    CHECK(watch(cpu, 30).source() == "gpu_flops_available");
    CHECK(watch(cpu, {}).source() == "measured matrix products");
    CHECK(cpu.peak_bytes() == 0);  // the measurement has not used the run's memory
  });
}

}  // namespace matmul_rate_test
