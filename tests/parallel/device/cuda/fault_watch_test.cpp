// Faults of a GPU are said while who uses it waits for ever.
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

#include "support/fake_nvml.hpp"

namespace fault_watch_test {

using namespace std::chrono_literals;

/// What was said; waits for it.
class heard {
 public:
  void operator()(std::string const& text) {
    std::scoped_lock const lock(mutex_);
    all_.push_back(text);
    said_.notify_all();
  }
  [[nodiscard]] std::vector<std::string> all(std::size_t count) {
    std::unique_lock lock(mutex_);
    said_.wait_for(lock, 20s, [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable said_;
  std::vector<std::string> all_;
};

using texts = std::vector<std::string>;
constexpr unsigned long long critical = 0x8;

TEST_CASE("a fault is said without being asked for, once") {
  test::fake_nvml const nvml;
  if (!nvml.works()) {
    MESSAGE("no C compiler here: skipped");
    return;
  }
  heard said;
  parallel::cuda::fault_watch watch(parallel::cuda::gpu_faults(nvml.gpu()), std::ref(said), 1ms);
  CHECK(nvml.state<unsigned long long>("types") != 0);
  nvml.report(critical, 79);
  auto const lost = "Xid 79 (the GPU has fallen off the bus; drain the machine)";
  CHECK(said.all(1) == texts{lost});
  watch.look();
  CHECK(said.all(1) == texts{lost});
  nvml.report(critical, 62);
  CHECK(said.all(2) == texts{lost, "Xid 62"});
}

TEST_CASE("who fails asks at once, and nobody waits for the watch to end") {
  test::fake_nvml const nvml;
  if (!nvml.works()) return;
  heard said;
  {
    parallel::cuda::fault_watch watch(parallel::cuda::gpu_faults(nvml.gpu()), std::ref(said), 24h);
    std::this_thread::sleep_for(20ms);  // its thread has looked, and waits
    nvml.report(critical, 62);
    watch.look();
    CHECK(said.all(1) == texts{"Xid 62"});
  }
  CHECK(nvml.state<int>("sets") == 0);
}

TEST_CASE("a machine without NVML is watched in silence") {
  heard said;
  {
    parallel::cuda::fault_watch watch(
        parallel::cuda::gpu_faults(std::make_shared<parallel::cuda::nvml_device>(
            "0000:3b:00.0", "libthere-is-no-such-library.so")),
        std::ref(said), 1ms);
    watch.look();
  }
  CHECK(said.all(0).empty());
}

}  // namespace fault_watch_test
