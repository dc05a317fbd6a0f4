// cuda::timeline: when operations ran on a CUDA stream, for profiles.
//
// While its trace is recording, every operation runs between two events. They are read once the
// stream has come to its end: nothing waits in between, so that what is measured is the run itself.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string_view>
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

  [[nodiscard]] bool recording() const { return record_ != nullptr && record_->recording(); }

  /// Enqueues an operation, which lives forever under this name.
  template <class Enqueue>
  auto measure(char const* name, cudaStream_t on, Enqueue&& enqueue) {
    if (!recording()) return enqueue();
    if (!origin_) origin_.emplace(std::chrono::steady_clock::now(), mark(on));
    auto begin = mark(on);
    auto const result = enqueue();
    marks_.push_back({name, std::move(begin), mark(on)});
    return result;
  }

  /// Gives the trace what has run. The stream must have come to its end.
  void finish() {
    for (auto const& one : std::exchange(marks_, {}))
      record_->add({{one.name}, since(one.begin), since(one.end)});
    origin_.reset();
  }

 private:
  using event = std::shared_ptr<CUevent_st>;
  struct mark_pair {
    char const* name;
    event begin, end;
  };

  [[nodiscard]] static event mark(cudaStream_t on) {
    cudaEvent_t made = nullptr;
    check(cudaEventCreate(&made), "cudaEventCreate");
    event out(made, [](cudaEvent_t e) { static_cast<void>(cudaEventDestroy(e)); });
    check(cudaEventRecord(made, on), "cudaEventRecord");
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
  std::optional<std::pair<steady_time, event>> origin_;  // one moment of the host, and the stream's
  std::vector<mark_pair> marks_;
};

}  // namespace parallel::cuda
