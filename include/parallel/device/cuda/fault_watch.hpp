// cuda::fault_watch: what goes wrong with a GPU is said when it happens.
//
// A rank whose GPU has failed may hang in a call of CUDA for ever: it never comes to say anything
// itself, and the others only tell that they wait for it. This thread does.
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
  /// Asks what has gone wrong, `every` so often, by a thread of its own, and calls `say` with it,
  /// there or in look(); `say` must not throw. Cost: two questions to NVML each time.
  fault_watch(gpu_faults faults, std::function<void(std::string const&)> say,
              std::chrono::milliseconds every = std::chrono::seconds(5))
      : faults_(std::move(faults)),
        say_(std::move(say)),
        thread_([this, every](std::stop_token const& over) { run(over, every); }) {}

  /// Says now what has not been said.
  void look() {
    std::scoped_lock const lock(mutex_);
    if (auto const text = faults_.take(); !text.empty()) say_(text);
  }

 private:
  void run(std::stop_token const& over, std::chrono::milliseconds every) {
    std::mutex idle;
    std::condition_variable_any nobody;  // notifies it: it waits for time or the end
    for (std::unique_lock lock(idle); !over.stop_requested();) {
      look();
      nobody.wait_for(lock, over, every, [] { return false; });
    }
  }

  std::mutex mutex_;
  gpu_faults faults_;
  std::function<void(std::string const&)> say_;
  std::jthread thread_;  // last: it ends before what it uses goes
};

}  // namespace parallel::cuda
