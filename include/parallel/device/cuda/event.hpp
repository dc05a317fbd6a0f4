// cuda::event: a point in the work of a CUDA stream that others can wait for.
//
// Waiting on the host blocks and never spins (cudaEventBlockingSync); no times are taken.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

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
    if (status == cudaErrorNotReady) return false;
    check(status, "cudaEventQuery");
    return true;
  }

  /// Blocks the calling thread until reached. Throws `error` when work before it failed.
  void wait() const { check(cudaEventSynchronize(event_.get()), "cudaEventSynchronize"); }

  [[nodiscard]] cudaEvent_t get() const { return event_.get(); }

 private:
  std::shared_ptr<CUevent_st> event_;
};

}  // namespace parallel::cuda
