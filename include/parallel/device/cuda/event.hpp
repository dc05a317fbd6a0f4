// cuda::event: a point in the work of a CUDA stream, for which streams and threads can wait.
//
// Waiting on the host blocks without spinning (cudaEventBlockingSync). The event records no time.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <thread>

#include <parallel/core/clock.hpp>
#include <parallel/device/cuda/error.hpp>

namespace parallel::cuda {

class event {
 public:
  /// An event on the current device. It counts as reached until it is recorded.
  event() {
    cudaEvent_t created = nullptr;
    check(cudaEventCreateWithFlags(&created, cudaEventDisableTiming | cudaEventBlockingSync),
          "cudaEventCreateWithFlags");
    event_.reset(created, [](cudaEvent_t e) { static_cast<void>(cudaEventDestroy(e)); });
  }

  /// Whether the event is reached; never blocks. Throws `error` if work before it failed.
  [[nodiscard]] bool ready() const {
    auto const status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // otherwise the next launch would report it
      return false;
    }
    check(status, "cudaEventQuery");
    return true;
  }

  /// Blocks the calling thread until the event is reached. Throws `error` if work before it failed.
  void wait() const { check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize"); }

  /// Like `wait`, but until `deadline` at most; false if the deadline passes first. CUDA has no
  /// such function, so the event is polled every millisecond.
  [[nodiscard]] bool wait_until(steady_time deadline) const {
    while (!ready()) {
      if (steady_time::clock::now() >= deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  [[nodiscard]] cudaEvent_t get() const { return event_.get(); }

 private:
  std::shared_ptr<CUevent_st> event_;
};

}  // namespace parallel::cuda
