// cuda::issuing_stream: a host stream whose worker enqueues work on a CUDA stream and waits for it.
//
// Some work of the host and the GPU must run in one common order, such as exchanges between ranks.
// A host stream defines this order: a task ends when the GPU work that it enqueued has ended.
#pragma once

#include <utility>

#include <parallel/device/cuda/stream.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::cuda {

class issuing_stream : public host::stream {
 public:
  /// Enqueues GPU work on `device_stream`, which must outlive this object. The device of that
  /// stream is current on the worker.
  issuing_stream(cuda::stream& device_stream, host::stream_options options)
      : host::stream(std::move(options)), device_stream_(device_stream) {
    enqueue([device = device_stream.device()] { check(cudaSetDevice(device), "cudaSetDevice"); });
  }

  /// Appends a task that calls work(stream), which enqueues on the CUDA stream, and waits for the
  /// stream.
  template <class Work>
  void enqueue_on_device(Work work) {
    enqueue([this, work = std::move(work)] {
      work(device_stream_);
      device_stream_.synchronize();
    });
  }

 private:
  cuda::stream& device_stream_;
};

}  // namespace parallel::cuda
