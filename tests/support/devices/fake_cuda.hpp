// A fake CUDA runtime for programs that do not link with the real one. Memory is host memory,
// streams run work at once, and a capture records it. Tests can inspect the calls and make them
// fail.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

struct CUstream_st {
  std::vector<int>* captured = nullptr;
};
struct CUevent_st {
  float time = 0;         // milliseconds
  bool blocking = true;   // waiting for it does not spin
  bool captured = false;  // recorded in a capture: waiting for it is an error
};
struct CUgraph_st {
  std::vector<int> nodes;
};
struct CUgraphExec_st {
  std::vector<int> nodes;
};

namespace fake {

struct cuda {
  int devices = 1;
  int major = 9;
  std::size_t memory = 1 << 20;
  std::map<void*, std::size_t> allocated = {};  // of the device
  std::map<void*, std::size_t> pooled = {};     // of the device, in stream order
  std::size_t most_pooled = 0;                  // the most pooled bytes at any time
  std::set<void*> pinned = {};
  std::set<int> contexts = {};  // GPUs on which this process has a context
  int streams = 0;
  int events = 0;
  int graphs = 0;  // instantiated and alive
  int instantiations = 0;
  std::vector<std::vector<int>> launches = {};  // the nodes of each launched graph
  std::vector<int> direct = {};                 // work that ran outside graphs
  float time = 0;                               // milliseconds; each operation takes one
  int spinning_waits = 0;
  bool busy = false;       // no event completes
  std::string fails = {};  // the function that fails next

  [[nodiscard]] bool fail(char const* function) {
    if (fails != function) return false;
    fails.clear();
    return true;
  }
  [[nodiscard]] static std::size_t sum_of(std::map<void*, std::size_t> const& memory) {
    std::size_t sum = 0;
    for (auto const& [address, bytes] : memory) sum += bytes;
    return sum;
  }
  [[nodiscard]] std::size_t used() const { return sum_of(allocated); }
};

/// The state of the fake machine; a test begins by resetting it.
inline cuda& machine() {
  static cuda instance;
  return instance;
}

/// The current GPU of the calling thread, at first 0.
inline int& current_device() {
  static thread_local int device = 0;
  return device;
}
/// Creates a context on the current GPU, as nearly every function of the runtime does.
inline void use_current_device() {
  static std::mutex mutex;
  std::scoped_lock const lock(mutex);
  machine().contexts.insert(current_device());
}

/// Launches a kernel, which is represented by a number.
inline void enqueue(cudaStream_t stream, int number) {
  ++machine().time;
  (stream->captured != nullptr ? *stream->captured : machine().direct).push_back(number);
}

/// Whether the stream is capturing, and so may not be waited for. CUDA lets it allocate memory of
/// the graph; this runtime refuses that.
inline bool is_capturing(cudaStream_t stream) {
  return stream != nullptr && stream->captured != nullptr;
}

}  // namespace fake

extern "C" {

inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = fake::machine().devices;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
inline cudaError_t cudaGetDevice(int* device) {
  return *device = fake::current_device(), cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  fake::current_device() = device;
  return fake::use_current_device(), cudaSuccess;
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline char const* cudaGetErrorName(cudaError_t) { return "cudaErrorPlayed"; }
inline char const* cudaGetErrorString(cudaError_t) { return "as the test wants"; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  *out = {};
  std::strcpy(out->name, "NVIDIA Played");
  out->major = fake::machine().major;
  out->uuid.bytes[15] = static_cast<char>(device);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr, int) {
  return *out = 1 << 10, cudaSuccess;
}
inline cudaError_t cudaDeviceGetPCIBusId(char* out, int, int) {
  std::strcpy(out, "0000:00:00.0");
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = fake::machine().memory;
  *free = *total - fake::machine().used();
  return cudaSuccess;
}

inline cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  fake::use_current_device();
  auto& gpu = fake::machine();
  if (gpu.fail("cudaMalloc") || gpu.used() + bytes > gpu.memory) return cudaErrorMemoryAllocation;
  *out = std::malloc(bytes);
  gpu.allocated[*out] = bytes;
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  fake::machine().allocated.erase(memory);
  fake::machine().pooled.erase(memory);
  return std::free(memory), cudaSuccess;
}
inline cudaError_t cudaMallocAsync(void** out, std::size_t bytes, cudaStream_t stream) {
  if (fake::is_capturing(stream)) return cudaErrorStreamCaptureUnsupported;
  auto const status = cudaMalloc(out, bytes);
  auto& gpu = fake::machine();
  if (status == cudaSuccess) gpu.pooled[*out] = bytes;
  gpu.most_pooled = std::max(gpu.most_pooled, fake::cuda::sum_of(gpu.pooled));
  return status;
}
inline cudaError_t cudaFreeAsync(void* memory, cudaStream_t) { return cudaFree(memory); }
inline cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  fake::use_current_device();
  *out = std::malloc(bytes);
  fake::machine().pinned.insert(*out);
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaFreeHost(void* memory) {
  fake::machine().pinned.erase(memory);
  return std::free(memory), cudaSuccess;
}
inline cudaError_t cudaMemset(void* destination, int value, std::size_t bytes) {
  return std::memset(destination, value, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* destination, void const* source, std::size_t bytes,
                              cudaMemcpyKind) {
  fake::use_current_device();
  return std::memcpy(destination, source, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* destination, void const* source, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(destination, source, bytes, kind);
}
inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* out, int) {
  return *out = nullptr, cudaSuccess;
}
inline cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void* out) {
  if (attribute != cudaMemPoolAttrUsedMemHigh) return cudaErrorInvalidValue;
  std::uint64_t const bytes = fake::machine().most_pooled;
  return std::memcpy(out, &bytes, sizeof bytes), cudaSuccess;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned) {
  fake::use_current_device();
  ++fake::machine().streams;
  return *out = new CUstream_st, cudaSuccess;
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return *lowest = *highest = 0, cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int) {
  return cudaStreamCreateWithFlags(out, flags);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  --fake::machine().streams;
  return delete stream, cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  fake::use_current_device();
  if (fake::is_capturing(stream)) return cudaErrorStreamCaptureUnsupported;
  ++fake::machine().spinning_waits;
  return fake::machine().fail("cudaStreamSynchronize") ? cudaErrorUnknown : cudaSuccess;
}
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  fake::use_current_device();
  ++fake::machine().events;
  return *out = new CUevent_st{.blocking = (flags & cudaEventBlockingSync) != 0}, cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  --fake::machine().events;
  return delete event, cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t* out) { return cudaEventCreateWithFlags(out, 0); }
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->captured = fake::is_capturing(stream);
  return event->time = fake::machine().time, cudaSuccess;
}
inline cudaError_t cudaEventElapsedTime(float* out, cudaEvent_t begin, cudaEvent_t end) {
  if (begin->captured || end->captured) return cudaErrorCapturedEvent;
  return *out = end->time - begin->time, cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t) {
  return fake::machine().busy ? cudaErrorNotReady : cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!event->blocking) ++fake::machine().spinning_waits;
  if (fake::machine().fail("cudaEventSynchronize")) return cudaErrorUnknown;
  return event->captured ? cudaErrorCapturedEvent : cudaSuccess;
}

inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return stream->captured = new std::vector<int>, cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* out) {
  *out = fake::is_capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* out) {
  *out = new CUgraph_st{std::move(*stream->captured)};
  delete stream->captured;
  stream->captured = nullptr;
  ++fake::machine().graphs;
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  --fake::machine().graphs;
  return delete graph, cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t graph,
                                        unsigned long long) {
  ++fake::machine().instantiations;
  ++fake::machine().graphs;
  return *out = new CUgraphExec_st{graph->nodes}, cudaSuccess;
}
/// Accepts a graph with other numbers if it has as many nodes.
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph,
                                       cudaGraphExecUpdateResultInfo*) {
  if (executable->nodes.size() != graph->nodes.size()) return cudaErrorGraphExecUpdateFailure;
  return executable->nodes = graph->nodes, cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  return fake::machine().launches.push_back(graph->nodes), cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  --fake::machine().graphs;
  return delete graph, cudaSuccess;
}

}  // extern "C"
