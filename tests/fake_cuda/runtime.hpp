// A CUDA runtime that is only fake, for tests: the library parallellm_fake_cuda defines the
// runtime's functions, for programs that do not link with CUDA's, and is as hard on ordering as a
// GPU.
//
// - Every stream is a queue with a thread of its own, at a pace that the seed draws: who does not
//   wait for an event finds memory as it was, or as it will be.
// - Every device has an address range. Memory begins as 0xff bytes (NaN in every format), ends at a
//   page without rights, and has none once it is freed.
// - A kernel whose arguments hold a pointer into living memory of another device without peer
// access
//   fails, and so does work that touches what was freed. A failure stays with its device, as on a
//   GPU: later calls return it. That a pointer is the host's and not pinned only products and sorts
//   see: kernels run in the host's process.
// - A capture refuses what CUDA refuses. A graph's nodes run in any order that their dependencies
//   allow.
//
// Not faked: managed memory, IPC, priorities, and streams that wait for the default stream.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// No other CUDA runtime exports it: a program that finds it does not run on GPUs.
extern "C" int const parallellm_fake_cuda_runtime;

namespace fake_cuda {

/// What a machine does wrong, so that tests show that they would see it.
enum class fault {
  none,
  no_stream_waits,  // streams go on in front of events
  no_host_waits,    // the host does
  early_records,    // an event is reached before the last work in front of it has run
  no_access,        // is given to other devices' memory, though it seems so
  crossed_streams,  // now and then work goes to another stream of the device
};

/// One of cuDNN's three engines for every graph.
struct engine {
  int microseconds = 0;       // that it takes, as events tell, beside computing
  std::size_t workspace = 0;  // that it asks for beside what the graph needs
  bool runs = true;           // else it can be built, and fails whenever it is run
};

struct machine_options {
  int devices = 1;
  /// Whether devices can be given access to each other's memory.
  bool peers = true;
  /// Compute capability.
  int major = 9;
  /// Bytes of each device.
  std::size_t memory = std::size_t{16} << 30;
  /// Bytes of shared memory that a block may ask for.
  std::size_t shared_memory = std::size_t{227} << 10;
  /// In the order in which cuDNN proposes them.
  std::array<engine, 3> engines = {};
  /// Draws every stream's pace, and the order of a kernel's threads and of a graph's nodes; 0:
  /// every stream is eager, and the order is the plain one.
  std::uint64_t seed = 0;
  /// Streams run only what somebody waits for, however often they are asked: without a wait nothing
  /// has happened, in every run. Ranks that exchange each wait for their own part then, or stand
  /// still. Copies to pageable memory go on beside the host, as CUDA's may.
  bool lazy = false;
  /// A kernel's first launch on a device waits for all that this was given, as CUDA's may, which
  /// loads a kernel then.
  bool loads_lazily = false;
  /// Calls for one device exclude each other, as those of a CUDA context do: what waits inside one
  /// for the device (a kernel's first launch, cudaFree, cudaFreeHost) keeps every other call of the
  /// process waiting. Waits for events and streams keep nobody waiting.
  bool context_lock = false;
  fake_cuda::fault fault = fault::none;
  /// The one occasion on which it does that wrong, counted from 1; 0: every one.
  std::size_t fault_at = 0;
};

/// A machine on which nothing has happened yet; a program begins with a plain one. Unless the one
/// before has failed, throws
/// std::logic_error while streams or memory of it are alive.
void restart(machine_options const& options = {});

/// What happened since then.
struct record {
  std::vector<std::string> failures = {};  // what failed a device, and calls that were refused
  std::set<int> contexts = {};             // devices of which the process has taken memory
  std::size_t kernels = 0;                 // that ran, in graphs too
  std::size_t attentions = 0;              // passes of cuDNN that ran
  std::size_t ragged_attentions = 0;       // of those, with documents as sequences of their own
  std::size_t graph_launches = 0;
  std::size_t instantiations = 0;
  std::size_t spinning_waits = 0;    // of the host, which held a core
  std::size_t accesses_enabled = 0;  // of a device to another's memory
  std::size_t allocations = 0;       // of memory of devices and pinned memory, from pools too
  std::size_t streams = 0;           // that were made
  std::size_t pinned_pieces = 0;     // of the host's memory, that were allocated
  std::size_t pinned_bytes = 0;
  std::size_t pageable_bytes = 0;  // that were copied from or to memory of the host
  std::size_t uploaded_bytes = 0;  // that were copied from the host's memory to a device's
  std::size_t occasions = 0;       // of the machine's fault
};
[[nodiscard]] record happened();

/// The next call of this function fails, as it may: cudaMalloc and cudaMallocAsync for want of
/// memory, cudaEventSynchronize and cudaStreamSynchronize with what work before did; of cuDNN
/// cudnnBackendExecute, and "cudnnBackendFinalize of a plan".
void fail_next(std::string function);

/// Streams, events, graphs and pieces of memory (of devices or pinned) that are alive when all that
/// devices were given has run: a stream may have ended before what it frees is freed.
[[nodiscard]] std::size_t alive();

/// Appends `work` to what the stream runs; it may block, and fails the device when it throws. While
/// the stream is captured it becomes a node of the graph, and runs in every launch. `name` lives
/// forever; a graph is updated by nodes of the same names.
cudaError_t enqueue(cudaStream_t on, char const* name, std::function<void()> work);

/// Calls `work`, inside what a stream runs; throws std::runtime_error when it touches memory that
/// is not there. Whoever holds a lock then must touch memory by this alone: a kernel that touches
/// what is not there ends where it stands, and destroys nothing.
void guard(std::function<void()> const& work);

/// The device whose living memory this is; -1: the host's.
[[nodiscard]] int device_of(void const* memory);
[[nodiscard]] int device_of(cudaStream_t stream);

/// Frees a device's memory while work on it may be under way, as unmapping does.
void unmap(void* memory);

/// Throws std::runtime_error that begins with `what` unless `device` reaches the `bytes` from
/// `memory` on: they are one living piece of its own, of pinned memory, or of a device to which it
/// was given access.
void require_access(int device, void const* memory, std::size_t bytes, std::string_view what);

/// Returns when no call of another thread is inside the device's context; at once unless
/// machine_options::context_lock.
void come_to_context(int device);
/// Whether one is.
[[nodiscard]] bool is_context_taken(int device);

/// Whether the device has failed: those who block inside their work then stop waiting.
[[nodiscard]] bool has_failed(int device);

/// A number for `what`, other with every seed, and 0 with seed 0.
[[nodiscard]] std::uint64_t chance(std::uint64_t what);

/// What device/cuda/kernel.cuh launches with: `run(chance)` is all threads of all blocks.
/// Pointers among `arguments`, which `run` keeps alive, are looked at before.
struct kernel_launch {
  char const* name;
  std::size_t blocks;
  unsigned threads;
  std::size_t shared_bytes;
  std::span<std::byte const> arguments;
};
cudaError_t launch(cudaStream_t on, kernel_launch const& what,
                   std::function<void(std::uint64_t)> run);

}  // namespace fake_cuda
