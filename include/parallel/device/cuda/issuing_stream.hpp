// cuda::issuing_stream: a host stream whose worker gives a CUDA stream its work and waits for it.
//
// Where work of the host and of the GPU must keep one order, as exchanges between ranks do, that
// order is a host stream's: a task is over when what it gave the GPU is.
#pragma once

#include <utility>

#include <parallel/device/cuda/stream.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::cuda {

class issuing_stream : public host::stream {
 public:
  /// Gives its work to `on`, which must outlive it. The worker stays with that stream's device.
  issuing_stream(cuda::stream& on, host::stream_options options)
      : host::stream(std::move(options)), on_(on) {
    enqueue([device = on.device()] { check(cudaSetDevice(device), "cudaSetDevice"); });
  }

  /// Appends what `work(stream)` enqueues on the CUDA stream.
  template <class Work>
  void on_device(Work work) {
    enqueue([this, work = std::move(work)] {
      work(on_);
      on_.synchronize();
    });
  }

 private:
  cuda::stream& on_;
};

}  // namespace parallel::cuda
