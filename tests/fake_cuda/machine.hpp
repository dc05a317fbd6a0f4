// The state of the fake machine, which all functions of the runtime share: memory, streams,
// failures.
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

/// The nodes that a capture has recorded, or that an instantiated graph runs.
struct CUgraph_st {
  struct node {
    char const* name;
    std::function<void()> work;
    std::vector<std::size_t> dependencies;  // indices of other nodes
  };
  std::vector<node> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<CUgraph_st const> graph;  // each launch keeps the graph that it began with
};

namespace fake_cuda {

/// A capture: it begins on `origin` and spreads to further streams by events.
struct capture {
  cudaStream_t origin;
  std::thread::id thread;
  cudaStreamCaptureMode mode;
  CUgraph_st graph = {};
  std::set<cudaStream_t> streams = {};
  bool is_broken = false;
};
using nodes = std::vector<std::size_t>;

}  // namespace fake_cuda

struct CUstream_st {
  int device;
  std::shared_ptr<fake_cuda::queue> work;
  std::shared_ptr<fake_cuda::capture> captured = {};
  fake_cuda::nodes last_nodes = {};  // the nodes on which the stream's next captured node depends
};

struct CUevent_st {
  int device;
  unsigned flags;
  std::shared_ptr<fake_cuda::queue> queue = {};  // null until the event is recorded
  std::uint64_t number = 0;                      // the number of the event's task in `queue`
  std::shared_ptr<std::chrono::steady_clock::time_point> time = {};
  std::shared_ptr<fake_cuda::capture> captured = {};
  fake_cuda::nodes last_nodes = {};
};

namespace fake_cuda {

class machine {
 public:
  machine_options options = {};
  memory store;
  std::mutex mutex;  // guards the members below, streams, events and captures
  record history;
  std::set<std::pair<int, int>> accesses;  // (device, peer) with peer access
  std::vector<std::weak_ptr<queue>> queues[memory::max_devices];
  std::unique_ptr<CUstream_st> default_streams[memory::max_devices];
  std::size_t handles = 0;  // streams, events and graphs that are alive
  std::size_t peak_pooled_bytes[memory::max_devices] = {};
  std::uint64_t streams_made = 0;
  /// Microseconds that events report in addition to the time that has truly passed.
  std::atomic<std::int64_t> simulated_microseconds = 0;
  std::atomic<char const*> failure[memory::max_devices] = {};  // the reason; null: none
  std::deque<std::string> failure_texts;                       // never freed
  std::string failing_function;  // the name of the function whose next call fails
  std::set<std::pair<int, std::string>> loaded_kernels;  // (device, kernel)
  std::recursive_mutex contexts[memory::max_devices];    // locked before `mutex`

  static machine& get() {
    static auto* const one = new machine;  // never freed: threads may outlive the program's statics
    return *one;
  }
};

/// Lasts as long as a call inside a device's context; with machine_options::context_lock such calls
/// exclude each other.
class in_context {
 public:
  explicit in_context(int device) {
    auto& m = machine::get();
    if (m.options.context_lock) lock_ = std::unique_lock(m.contexts[device]);
  }

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// The runtime's state for one thread.
struct thread_state {
  int device = 0;
  cudaError_t last_error = cudaSuccess;
  std::shared_ptr<capture> capturing = {};
};
inline thread_state& calling_thread() {
  static thread_local thread_state one;
  return one;
}

/// The task of a stream that the calling thread runs: an access to memory without rights ends the
/// task instead of the program.
struct guarded_task {
  char const* name = nullptr;  // null while the thread runs no task
  sigjmp_buf* return_point = nullptr;
  void* fault_address = nullptr;
};
inline guarded_task& running_task() {
  static thread_local guarded_task one;
  return one;
}

/// Records `reason` and returns `status`, which cudaGetLastError reports too.
inline cudaError_t refuse(cudaError_t status, std::string const& reason) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  m.history.failures.push_back(reason);
  return calling_thread().last_error = status;
}

/// Marks the device as failed: every later call on it returns an error.
inline void fail(int device, std::string const& reason) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  m.history.failures.push_back(reason);
  if (m.failure[device] == nullptr)
    m.failure[device] = m.failure_texts.emplace_back(reason).c_str();
}

/// Success, or the error of a device that has failed.
inline cudaError_t status_of(int device) {
  return machine::get().failure[device] == nullptr ? cudaSuccess : cudaErrorLaunchFailure;
}

/// Whether the machine has this fault and shows it on this occasion, which counts.
inline bool occurs(fault kind) {
  auto& m = machine::get();
  if (m.options.fault != kind) return false;
  std::scoped_lock const lock(m.mutex);
  ++m.history.occasions;
  return m.options.fault_occasion == 0 || m.options.fault_occasion == m.history.occasions;
}

/// Whether this call of `function` is the one that must fail.
inline bool must_fail(char const* function) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  if (m.failing_function != function) return false;
  m.failing_function.clear();
  return true;
}

/// Creates the current device's context, as nearly every function of the runtime does first.
inline void use_current_device() {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  m.history.contexts.insert(calling_thread().device);
}

/// Breaks the calling thread's capture when `function` is not permitted during it, and returns the
/// error; success if there is no such capture.
cudaError_t check_no_capture(char const* function);

/// The stream itself, or the current device's default stream.
cudaStream_t resolve(cudaStream_t stream);

/// Enqueues `work` on the stream, which is not captured, and returns when it has run, also where a
/// fault put it on another stream: the host memory that it writes may be freed after the call.
cudaError_t run_and_wait(cudaStream_t stream, char const* name, std::function<void()> work);

/// Returns when all work that was enqueued on the device's streams has run.
void wait_for_device(int device);

/// Makes the queue of a new stream of the device.
std::shared_ptr<queue> make_queue(int device);

}  // namespace fake_cuda
