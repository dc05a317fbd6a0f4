// cuda::timeline: the times of operations on a CUDA stream, for profiles.
//
// While its trace is recording, every operation is enqueued between two events. They are read when
// the stream is empty: measuring adds no waits that would change the run.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <parallel/core/clock.hpp>
#include <parallel/device/cuda/error.hpp>
#include <parallel/device/host/trace.hpp>

namespace parallel::cuda {

class timeline {
 public:
  /// Writes to `record`, which must outlive it; null: measures nothing.
  explicit timeline(host::trace* record) : record_(record) {}

  [[nodiscard]] bool is_recording() const { return record_ != nullptr && record_->is_recording(); }

  /// Calls enqueue() and records the time of its operation. `name` must live forever.
  template <class Enqueue>
  auto measure(char const* name, cudaStream_t stream, Enqueue&& enqueue) {
    if (!is_recording()) return enqueue();
    if (!origin_) origin_.emplace(std::chrono::steady_clock::now(), mark(stream));
    auto begin = mark(stream);
    auto const result = enqueue();
    marks_.push_back({name, std::move(begin), mark(stream)});
    return result;
  }

  /// Writes the recorded operations to the trace. The stream must be empty.
  void finish() {
    for (auto const& measured : std::exchange(marks_, {}))
      record_->add({{measured.name}, since(measured.begin), since(measured.end)});
    origin_.reset();
  }

 private:
  using event = std::shared_ptr<CUevent_st>;
  struct mark_pair {
    char const* name;
    event begin, end;
  };

  [[nodiscard]] static event mark(cudaStream_t stream) {
    cudaEvent_t created = nullptr;
    check(cudaEventCreate(&created), "cudaEventCreate");
    event out(created, [](cudaEvent_t e) { static_cast<void>(cudaEventDestroy(e)); });
    check(cudaEventRecord(created, stream), "cudaEventRecord");
    return out;
  }

  [[nodiscard]] steady_time since(event const& mark) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, origin_->second.get(), mark.get()),
          "cudaEventElapsedTime");
    return origin_->first + std::chrono::duration_cast<steady_time::duration>(
                                std::chrono::duration<double, std::milli>(milliseconds));
  }

  host::trace* record_;
  std::optional<std::pair<steady_time, event>>
      origin_;  // one moment, on the host and on the stream
  std::vector<mark_pair> marks_;
};

}  // namespace parallel::cuda
