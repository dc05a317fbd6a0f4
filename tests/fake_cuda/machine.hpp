// The state of the fake machine: what its functions share (memory, streams, failures).
#pragma once

#include <csetjmp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_cuda/memory.hpp"
#include "fake_cuda/queue.hpp"
#include "fake_cuda/runtime.hpp"

/// What a capture noted, or an instantiated graph runs.
struct CUgraph_st {
  struct node {
    char const* name;
    std::function<void()> work;
    std::vector<std::size_t> after;  // other nodes
  };
  std::vector<node> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<CUgraph_st const> graph;  // launches keep what they were given
};

namespace fake_cuda {

/// The streams that a capture has come to, from `origin` on.
struct capture {
  cudaStream_t origin;
  std::thread::id thread;
  cudaStreamCaptureMode mode;
  CUgraph_st graph = {};
  std::set<cudaStream_t> streams = {};
  bool broken = false;
};
using nodes = std::vector<std::size_t>;

}  // namespace fake_cuda

struct CUstream_st {
  int device;
  std::shared_ptr<fake_cuda::queue> work;
  std::shared_ptr<fake_cuda::capture> captured = {};
  fake_cuda::nodes tips = {};  // of the capture: what its next node comes after
};

struct CUevent_st {
  int device;
  unsigned flags;
  std::shared_ptr<fake_cuda::queue> of = {};  // null: not yet recorded
  std::uint64_t number = 0;                   // of its tasks
  std::shared_ptr<std::chrono::steady_clock::time_point> when = {};
  std::shared_ptr<fake_cuda::capture> captured = {};
  fake_cuda::nodes tips = {};
};

namespace fake_cuda {

class machine {
 public:
  machine_options options = {};
  memory store;
  std::mutex mutex;  // of what follows, and of streams, events and captures
  record happened;
  std::set<std::pair<int, int>> accesses;  // of a device to another's memory
  std::vector<std::weak_ptr<queue>> queues[memory::most_devices];
  std::unique_ptr<CUstream_st> default_streams[memory::most_devices];
  std::size_t handles = 0;  // streams, events and graphs that are alive
  std::size_t most_pooled[memory::most_devices] = {};
  std::uint64_t streams_made = 0;
  /// That work took, say its events, beside the time it took.
  std::atomic<std::int64_t> pretended_microseconds = 0;
  std::atomic<char const*> failure[memory::most_devices] = {};  // why
  std::deque<std::string> reasons;                              // live forever
  std::string fails_next;                                       // a function
  std::set<std::pair<int, std::string>> loaded;                 // kernels, by device
  std::recursive_mutex contexts[memory::most_devices];          // before `mutex`

  static machine& get() {
    static auto* const one = new machine;  // threads may outlive everything
    return *one;
  }
};

/// A call inside a device's context, where calls exclude each other there.
class in_context {
 public:
  explicit in_context(int device) {
    auto& m = machine::get();
    if (m.options.context_lock) lock_ = std::unique_lock(m.contexts[device]);
  }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// Of the calling thread.
struct thread_state {
  int device = 0;
  cudaError_t last = cudaSuccess;
  std::shared_ptr<capture> capturing = {};
};
inline thread_state& here() {
  static thread_local thread_state one;
  return one;
}

/// What the calling thread runs of a stream's work; there memory without rights may be touched.
struct guarded_task {
  char const* name = nullptr;  // null: nothing
  sigjmp_buf* back = nullptr;
  void* touched = nullptr;
};
inline guarded_task& running_task() {
  static thread_local guarded_task one;
  return one;
}

/// Notes why, and returns `status`, which cudaGetLastError will say too.
inline cudaError_t refuse(cudaError_t status, std::string const& why) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  m.happened.failures.push_back(why);
  return here().last = status;
}

/// The device is lost, whatever is called from now on.
inline void fail(int device, std::string const& why) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  m.happened.failures.push_back(why);
  if (m.failure[device] == nullptr) m.failure[device] = m.reasons.emplace_back(why).c_str();
}

/// What every function of a device's work begins with.
inline cudaError_t status_of(int device) {
  return machine::get().failure[device] == nullptr ? cudaSuccess : cudaErrorLaunchFailure;
}

/// Whether the machine's fault is this one, and shows now.
inline bool strikes(fault what) {
  auto& m = machine::get();
  if (m.options.fault != what) return false;
  std::scoped_lock const lock(m.mutex);
  ++m.happened.occasions;
  return m.options.fault_at == 0 || m.options.fault_at == m.happened.occasions;
}

/// Whether this call of a function is the one that is to fail.
inline bool fails_next(char const* function) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  if (m.fails_next != function) return false;
  m.fails_next.clear();
  return true;
}

/// What nearly every function of the runtime does at first: takes memory for the process.
inline void use_current_device() {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  m.happened.contexts.insert(here().device);
}

/// Breaks the captures that `function` would disturb, of this thread or global ones; success: there
/// are none.
cudaError_t not_while_capturing(char const* function);

/// The stream itself, or the current device's default stream.
cudaStream_t resolve(cudaStream_t stream);

/// Until everything that the device's streams have been given has run.
void wait_for_device(int device);

/// A queue for a new stream of the device.
std::shared_ptr<queue> make_queue(int device);

}  // namespace fake_cuda
