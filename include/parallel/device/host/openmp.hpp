// openmp: the only OpenMP pragmas of the library: loops over tasks on several threads.
//
// The file is declared a system header because g++ without -fopenmp warns of unknown pragmas, and
// nothing else silences the warning. Without -fopenmp the loops are sequential and compute the
// same.
#pragma once
#pragma GCC system_header

#include <atomic>
#include <exception>

#include <parallel/core/tensor.hpp>

namespace parallel::host {

namespace detail {

/// Stores the first exception of several threads, since no exception may leave an OpenMP region.
class first_failure {
 public:
  /// Calls f(task), unless a call has failed before.
  template <class F>
  void attempt(F const& f, index task) noexcept {
    try {
      if (!taken_.load(std::memory_order_relaxed)) f(task);
    } catch (...) {
      if (!taken_.exchange(true)) failure_ = std::current_exception();
    }
  }
  /// Rethrows the stored exception. To be called after the threads are joined.
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
