// The only OpenMP pragmas of the library: loops over tasks on several threads.
//
// Declared a system header because g++ warns of unknown pragmas when built without -fopenmp, and
// silences that only so; the loops are then sequential and compute the same.
#pragma once
#pragma GCC system_header

#include <atomic>
#include <exception>

#include <parallel/core/tensor.hpp>

namespace parallel::host {

namespace detail {

/// Keeps the first exception of several threads; an exception may not leave an OpenMP region.
class first_failure {
 public:
  /// f(task), unless something has failed before.
  template <class F>
  void attempt(F const& f, index task) noexcept {
    try {
      if (!taken_.load(std::memory_order_relaxed)) f(task);
    } catch (...) {
      if (!taken_.exchange(true)) failure_ = std::current_exception();
    }
  }
  /// After the threads were joined.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::atomic<bool> taken_ = false;
  std::exception_ptr failure_;
};

template <class F>
void parallel_static([[maybe_unused]] int threads, index count, F const& f) {
  first_failure failure;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (index task = 0; task < count; ++task) failure.attempt(f, task);
  failure.rethrow();
}

template <class F>
void parallel_dynamic([[maybe_unused]] int threads, index count, F const& f) {
  first_failure failure;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
  for (index task = 0; task < count; ++task) failure.attempt(f, task);
  failure.rethrow();
}

}  // namespace detail

}  // namespace parallel::host
