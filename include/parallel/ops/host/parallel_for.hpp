// parallel_for: runs a host operation on several threads.
//
// It uses OpenMP: helper threads persist between calls, belong to the calling thread (so every
// stream worker has its own) and inherit its cores. One thread means a plain loop without any
// OpenMP call; ThreadSanitizer builds use this too, since ThreadSanitizer does not understand
// libgomp. Work is divided at multiples of `grain`, whatever the number of threads: a block is
// always the same block, so reductions by block do not depend on the number of threads. Cost: about
// 1 us to start and join two waiting threads, nothing with one thread.
#pragma once

#include <algorithm>

#include <parallel/core/tensor.hpp>
#include <parallel/device/host/openmp.hpp>

namespace parallel::host {

/// Calls `f(begin, end)` once for every block [k*grain, min((k+1)*grain, count)), on up to
/// `threads` threads, each taking a contiguous range of blocks in order. The first exception is
/// rethrown after all threads have stopped. `grain` >= 1: the work of one call should take some
/// microseconds.
template <class F>
void parallel_for(int threads, index count, index grain, F const& f) {
  index const blocks = (count + grain - 1) / grain;
  auto const block = [&](index k) { f(k * grain, std::min((k + 1) * grain, count)); };
  if (threads <= 1 || blocks <= 1) {
    for (index k = 0; k < blocks; ++k) block(k);
    return;
  }
  detail::parallel_static(static_cast<int>(std::min<index>(threads, blocks)), blocks, block);
}

/// Calls `f(task)` once for every task in [0, count). Each free thread takes the next task, so that
/// uneven tasks balance. Tasks must not depend on the thread they run on.
template <class F>
void parallel_tasks(int threads, index count, F const& f) {
  if (threads <= 1 || count <= 1) {
    for (index task = 0; task < count; ++task) f(task);
    return;
  }
  detail::parallel_dynamic(static_cast<int>(std::min<index>(threads, count)), count, f);
}

}  // namespace parallel::host
