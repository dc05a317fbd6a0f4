// fastest: measures which of several ways to do the same work on a cuda::stream takes the least
// time.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <vector>

#include <parallel/device/cuda/error.hpp>
#include <parallel/device/cuda/stream.hpp>

namespace parallel::cuda {

namespace detail {

/// Milliseconds between two points of a stream's work.
class stopwatch {
 public:
  explicit stopwatch(stream& s) : stream_(s) {}

  void start() { check(cudaEventRecord(begin_.get(), stream_.get()), "cudaEventRecord"); }
  /// The time since `start`, once the work in between is done; blocks the caller until then.
  [[nodiscard]] float stop() {
    check(cudaEventRecord(end_.get(), stream_.get()), "cudaEventRecord");
    check(cudaEventSynchronize(end_.get()), "work that was timed");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_.get(), end_.get()), "cudaEventElapsedTime");
    return milliseconds;
  }

 private:
  struct destroy {
    void operator()(cudaEvent_t e) const { static_cast<void>(cudaEventDestroy(e)); }
  };
  using timed_event = std::unique_ptr<CUevent_st, destroy>;

  [[nodiscard]] static timed_event create() {
    cudaEvent_t created = nullptr;
    check(cudaEventCreateWithFlags(&created, cudaEventBlockingSync), "cudaEventCreateWithFlags");
    return timed_event(created);
  }

  stream& stream_;
  timed_event begin_ = create();
  timed_event end_ = create();
};

}  // namespace detail

/// The index of the fastest of `ways` ways (0, 1, ...); -1 when none works. run(way) enqueues the
/// work and returns false when that way does not work. After one warm-up run of each, the ways are
/// timed in turn, so that all of them run at the same clocks and temperatures; the best of 3 times
/// counts, each of 8 runs. Blocks the caller; the stream's device must be current.
template <class Run>
[[nodiscard]] int fastest(stream& s, int ways, Run const& run) {
  constexpr int rounds = 3;
  constexpr int runs = 8;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> best(static_cast<std::size_t>(ways), infinity);
  std::vector<int> working;
  for (int way = 0; way < ways; ++way)
    if (run(way)) working.push_back(way);
  detail::stopwatch watch(s);
  for (int round = 0; round < rounds; ++round)
    for (int const way : working) {
      watch.start();
      for (int i = 0; i < runs; ++i) static_cast<void>(run(way));
      float& best_time = best[static_cast<std::size_t>(way)];
      best_time = std::min(best_time, watch.stop());
    }
  if (working.empty()) return -1;
  return static_cast<int>(std::ranges::min_element(best) - best.begin());
}

}  // namespace parallel::cuda
