// cuda::stream: an in-order queue of work on a CUDA device, with the operations of host::stream
// that need no compiler for the device. Plain g++ compiles it; kernels are launched by the
// operations' .cuh.
//
// The stream does not wait for CUDA's default stream (non-blocking), so only events order work.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include <parallel/device/cuda/error.hpp>
#include <parallel/device/cuda/event.hpp>

namespace parallel::cuda {

struct stream_options {
  /// Ordinal of the device.
  int device = 0;
};

class stream {
 public:
  explicit stream(stream_options options = {}) : device_(options.device) {
    device_scope const scope(device_);
    cudaStream_t created = nullptr;
    check(cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    stream_.reset(created);
  }

  /// An event that is reached when everything enqueued so far has run.
  [[nodiscard]] event record() {
    device_scope const scope(device_);
    event mark;
    check(cudaEventRecord(mark.get(), get()), "cudaEventRecord");
    return mark;
  }

  /// Later work of this stream runs only after `mark` is reached; does not block the caller.
  void wait(event const& mark) {
    check(cudaStreamWaitEvent(get(), mark.get(), cudaEventWaitDefault), "cudaStreamWaitEvent");
  }

  /// Blocks the caller until all enqueued work has run; throws `error` when some of it failed.
  void synchronize() { check(cudaStreamSynchronize(get()), "cudaStreamSynchronize"); }

  [[nodiscard]] cudaStream_t get() const { return stream_.get(); }
  [[nodiscard]] int device() const { return device_; }

 private:
  struct destroy {
    void operator()(cudaStream_t stream) const { static_cast<void>(cudaStreamDestroy(stream)); }
  };

  int device_;
  std::unique_ptr<CUstream_st, destroy> stream_;
};

}  // namespace parallel::cuda
