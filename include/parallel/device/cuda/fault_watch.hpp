// cuda::fault_watch: a thread that reports faults of a GPU when they happen.
//
// A rank whose GPU has failed may hang in a CUDA call for ever and then reports nothing; the other
// ranks report only that they wait for it. This thread reports the fault itself.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <parallel/device/cuda/gpu_faults.hpp>

namespace parallel::cuda {

class fault_watch {
 public:
  /// Starts a thread that polls `faults` at every `interval` and calls `report` with a description
  /// of new faults. `report` is called by that thread or within poll(), and must not throw. Cost:
  /// two NVML calls per poll.
  fault_watch(gpu_faults faults, std::function<void(std::string const&)> report,
              std::chrono::milliseconds interval = std::chrono::seconds(5))
      : faults_(std::move(faults)),
        report_(std::move(report)),
        thread_([this, interval](std::stop_token const& stop) { run(stop, interval); }) {}

  /// Reports the faults that have not been reported.
  void poll() {
    std::scoped_lock const lock(mutex_);
    if (auto const text = faults_.take(); !text.empty()) report_(text);
  }

 private:
  void run(std::stop_token const& stop, std::chrono::milliseconds interval) {
    std::mutex idle;
    std::condition_variable_any never_notified;  // the wait ends after `interval` or by `stop`
    for (std::unique_lock lock(idle); !stop.stop_requested();) {
      poll();
      never_notified.wait_for(lock, stop, interval, [] { return false; });
    }
  }

  std::mutex mutex_;
  gpu_faults faults_;
  std::function<void(std::string const&)> report_;
  std::jthread thread_;  // last member: it ends before the members that it uses are destroyed
};

}  // namespace parallel::cuda
