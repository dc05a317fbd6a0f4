// A fake CUDA runtime for tests: the library parallellm_fake_cuda defines the runtime's functions
// for programs that do not link with CUDA's, and is as strict about ordering as a GPU.
//
// - Every stream is a queue with its own thread, at a pace that the seed draws: work that does
//   not wait for an event finds memory in an earlier or a later state.
// - Every device has an address range. Memory begins as 0xff bytes (NaN in every format), ends at a
//   page without access rights, and loses its own rights when it is freed.
// - A kernel fails when its arguments hold a pointer into living memory of another device without
//   peer access, and so does work that touches freed memory. A failure stays with its device, as on
//   a GPU: later calls return it. Kernels run in the host's process, so only products and sorts
//   notice a pointer to memory of the host that is not pinned.
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

/// The symbol that only the fake runtime exports: a program that finds it does not run on GPUs.
extern "C" int const parallellm_fake_cuda_runtime;

namespace fake_cuda {

/// A fault of the machine, by which tests show that they would notice it.
enum class fault {
  none,
  no_stream_waits,  // streams do not wait for events
  no_host_waits,    // the host does not wait for events
  early_records,    // an event happens before the last work in front of it has run
  no_access,        // peer access is reported as enabled, but is not
  crossed_streams,  // now and then work goes to another stream of the device
};

/// One of the three engines that cuDNN offers for every graph.
struct engine {
  int microseconds = 0;       // added to the time that events measure
  std::size_t workspace = 0;  // bytes in addition to the graph's own workspace
  bool runs = true;           // false: the engine can be built, but every run of it fails
};

struct machine_options {
  int devices = 1;
  /// Whether devices can be given access to each other's memory.
  bool peers = true;
  /// Compute capability.
  int major = 9;
  /// Bytes of each device.
  std::size_t memory = std::size_t{16} << 30;
  /// The most bytes of shared memory for each block.
  std::size_t shared_memory = std::size_t{227} << 10;
  /// The engines in the order in which cuDNN proposes them.
  std::array<engine, 3> engines = {};
  /// Draws every stream's pace, and the order of a kernel's threads and of a graph's nodes. With
  /// seed 0 every stream is eager, and threads and nodes run in ascending order.
  std::uint64_t seed = 0;
  /// Streams run only the work that some thread waits for, however often they are queried: without
  /// a wait no work has run, in every run of the test. Each rank of an exchange must then wait for
  /// its own part, or the exchange does not proceed. Copies to pageable memory return before they
  /// have run, as CUDA's may.
  bool lazy = false;
  /// A kernel's first launch on a device waits for all work of the device, as CUDA's may, because
  /// it loads the kernel.
  bool loads_lazily = false;
  /// Calls for one device exclude each other, as those of a CUDA context do: a call that waits for
  /// the device inside the context (a kernel's first launch, cudaFree, cudaFreeHost) blocks every
  /// other call of the process. Waits for events and streams block no other call.
  bool context_lock = false;
  fake_cuda::fault fault = fault::none;
  /// The one occasion on which the fault shows, counted from 1; 0: every occasion.
  std::size_t fault_occasion = 0;
};

/// Replaces the machine by a fresh one; a program begins with a machine of default options. Throws
/// std::logic_error while streams or memory of the machine before are alive, unless one of its
/// devices has failed.
void restart(machine_options const& options = {});

/// The events since the last restart.
struct record {
  std::vector<std::string> failures = {};  // reasons why devices failed or calls were refused
  std::set<int> contexts = {};             // devices on which the process has a context
  std::size_t kernels = 0;                 // kernels that ran, in graphs too
  std::size_t attentions = 0;              // passes of attention that cuDNN ran
  std::size_t ragged_attentions = 0;       // the passes among them with a sequence per document
  std::size_t graph_launches = 0;
  std::size_t instantiations = 0;
  std::size_t spinning_waits = 0;    // waits in which the host kept a core busy
  std::size_t accesses_enabled = 0;  // pairs of devices with peer access
  std::size_t allocations = 0;       // of device memory and pinned memory, from pools too
  std::size_t streams = 0;           // streams that were made
  std::size_t pinned_pieces = 0;     // allocations of pinned memory
  std::size_t pinned_bytes = 0;
  std::size_t pageable_bytes = 0;  // bytes that were copied from or to pageable memory
  std::size_t uploaded_bytes = 0;  // bytes that were copied from the host to a device
  std::size_t occasions = 0;       // occasions for the machine's fault
};
[[nodiscard]] record history();

/// Makes the next call of `function` fail: cudaMalloc and cudaMallocAsync for lack of memory,
/// cudaEventSynchronize and cudaStreamSynchronize with the error of earlier work. Functions of
/// cuDNN are cudnnBackendExecute and "cudnnBackendFinalize of a plan".
void fail_next(std::string function);

/// The number of streams, events, graphs and allocations (of device and pinned memory) that are
/// alive. Waits first for all work of all devices, because a destroyed stream may still free
/// memory.
[[nodiscard]] std::size_t live_objects();

/// Enqueues `work` on the stream. `work` may block; the device fails when `work` throws. While the
/// stream is captured, `work` becomes a node of the graph and runs in every launch. `name` must
/// live forever; a graph can be updated only by nodes of the same names.
cudaError_t enqueue(cudaStream_t stream, char const* name, std::function<void()> work);

/// Calls `work` inside a task of a stream; throws std::runtime_error when `work` touches memory
/// that is not allocated. A task that holds a lock must touch memory only through `guard`: without
/// it the task ends at the access and no destructor runs.
void guard(std::function<void()> const& work);

/// The device on which `memory` is allocated; -1 for memory of the host.
[[nodiscard]] int device_of(void const* memory);
[[nodiscard]] int device_of(cudaStream_t stream);

/// Frees a device's memory while work on it may be under way, as unmapping does.
void unmap(void* memory);

/// Throws std::runtime_error, whose text begins with `label`, unless `device` can access `bytes`
/// bytes from `memory` on: they lie in one living allocation of the device itself, of pinned
/// memory, or of a peer to which the device has access.
void require_access(int device, void const* memory, std::size_t bytes, std::string_view label);

/// Returns when no call of another thread is inside the device's context; without
/// machine_options::context_lock returns at once.
void wait_for_context(int device);
/// Whether a call of another thread is inside the device's context.
[[nodiscard]] bool is_context_taken(int device);

/// Whether the device has failed: work that blocks must then stop waiting.
[[nodiscard]] bool has_failed(int device);

/// A pseudorandom number for `key`, which depends on the machine's seed; 0 with seed 0.
[[nodiscard]] std::uint64_t chance(std::uint64_t key);

/// The launch of a kernel by device/cuda/kernel.cuh: `run(chance)` runs all threads of all blocks.
/// Pointers among `arguments`, which `run` keeps alive, are checked before.
struct kernel_launch {
  char const* name;
  std::size_t blocks;
  unsigned threads;
  std::size_t shared_bytes;
  std::span<std::byte const> arguments;
};
cudaError_t launch(cudaStream_t stream, kernel_launch const& kernel,
                   std::function<void(std::uint64_t)> run);

}  // namespace fake_cuda
