// cuda::event: a point in the work of a CUDA stream that others can wait for.
//
// Waiting on the host blocks and never spins (cudaEventBlockingSync); no times are taken.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <thread>

#include <parallel/core/clock.hpp>
#include <parallel/device/cuda/error.hpp>

namespace parallel::cuda {

class event {
 public:
  /// An event on the current device, not yet recorded: reached at once.
  event() {
    cudaEvent_t created = nullptr;
    check(cudaEventCreateWithFlags(&created, cudaEventDisableTiming | cudaEventBlockingSync),
          "cudaEventCreateWithFlags");
    event_.reset(created, [](cudaEvent_t e) { static_cast<void>(cudaEventDestroy(e)); });
  }

  /// True when reached; never blocks. Throws `error` when work before it failed.
  [[nodiscard]] bool ready() const {
    auto const status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // or the next launch would seem to have failed
      return false;
    }
    check(status, "cudaEventQuery");
    return true;
  }

  /// Blocks the calling thread until reached. Throws `error` when work before it failed.
  void wait() const { check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize"); }

  /// Like `wait`, until `deadline` at most; false when the deadline passed first. CUDA has no such
  /// wait: looks every millisecond.
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
