// fault_watch reports the faults of a GPU from its own thread, also while the program hangs.
#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <parallel/device/cuda/fault_watch.hpp>

#include "support/devices/fake_nvml.hpp"

namespace fault_watch_test {

using namespace std::chrono_literals;

/// Collects reports; wait_for(count) waits until it has `count` of them, at most 20 s.
class report_log {
 public:
  void operator()(std::string const& text) {
    std::scoped_lock const lock(mutex_);
    texts_.push_back(text);
    changed_.notify_all();
  }
  [[nodiscard]] std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, 20s, [&] { return texts_.size() >= count; });
    return texts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
};

using texts = std::vector<std::string>;
constexpr unsigned long long critical = 0x8;

TEST_CASE("fault_watch: a fault is reported once, without a call of poll") {
  test::fake_nvml const nvml;
  if (!nvml.is_available()) {
    MESSAGE("no C compiler here: skipped");
    return;
  }
  report_log reports;
  parallel::cuda::fault_watch watch(parallel::cuda::gpu_faults(nvml.gpu()), std::ref(reports), 1ms);
  CHECK(nvml.state<unsigned long long>("types") != 0);  // event types are registered
  nvml.report(critical, 79);
  auto const lost_gpu_report = "Xid 79 (the GPU has fallen off the bus; drain the machine)";
  CHECK(reports.wait_for(1) == texts{lost_gpu_report});
  watch.poll();
  CHECK(reports.wait_for(1) == texts{lost_gpu_report});
  nvml.report(critical, 62);
  CHECK(reports.wait_for(2) == texts{lost_gpu_report, "Xid 62"});
}

TEST_CASE("fault_watch: poll reports at once, and the destructor does not wait for the interval") {
  test::fake_nvml const nvml;
  if (!nvml.is_available()) return;
  report_log reports;
  {
    parallel::cuda::fault_watch watch(parallel::cuda::gpu_faults(nvml.gpu()), std::ref(reports),
                                      24h);
    std::this_thread::sleep_for(20ms);  // its thread has polled once and waits
    nvml.report(critical, 62);
    watch.poll();
    CHECK(reports.wait_for(1) == texts{"Xid 62"});
  }
  CHECK(nvml.state<int>("sets") == 0);  // the event set is freed
}

TEST_CASE("fault_watch: reports nothing on a machine without NVML") {
  report_log reports;
  {
    parallel::cuda::fault_watch watch(
        parallel::cuda::gpu_faults(std::make_shared<parallel::cuda::nvml_device>(
            "0000:3b:00.0", "libthere-is-no-such-library.so")),
        std::ref(reports), 1ms);
    watch.poll();
  }
  CHECK(reports.wait_for(0).empty());
}

}  // namespace fault_watch_test
