// A CUDA runtime that is only fake: its functions, for a program that does not link with CUDA's.
// Memory is the host's, streams run at once what is enqueued, and a capture counts it. What is
// asked of it can be looked at, and made to fail.
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
  bool blocking = true;   // who waits for it does not spin
  bool captured = false;  // as a part of a graph: nobody can wait for it
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
  std::map<void*, std::size_t> pooled = {};     // of it, in the order of a stream
  std::size_t most_pooled = 0;                  // bytes at once
  std::set<void*> pinned = {};
  std::set<int> contexts = {};  // of these GPUs the process has taken memory
  int streams = 0;
  int events = 0;
  int graphs = 0;  // instantiated and alive
  int instantiations = 0;
  std::vector<std::vector<int>> launches = {};  // what each graph ran
  std::vector<int> direct = {};                 // what ran outside of graphs
  float time = 0;                               // milliseconds: an operation takes one
  int spinning_waits = 0;
  bool busy = false;       // no event is reached
  std::string fails = {};  // the function that fails next

  [[nodiscard]] bool fail(char const* function) {
    if (fails != function) return false;
    fails.clear();
    return true;
  }
  [[nodiscard]] static std::size_t sum_of(std::map<void*, std::size_t> const& memory) {
    std::size_t sum = 0;
    for (auto const& [where, bytes] : memory) sum += bytes;
    return sum;
  }
  [[nodiscard]] std::size_t used() const { return sum_of(allocated); }
};

/// The machine; a test begins with a new one.
inline cuda& machine() {
  static cuda one;
  return one;
}

/// Of the calling thread; each begins with GPU 0.
inline int& current_device() {
  static thread_local int device = 0;
  return device;
}
/// What nearly every function of the runtime does at first.
inline void use_current_device() {
  static std::mutex one_at_a_time;
  std::scoped_lock const lock(one_at_a_time);
  machine().contexts.insert(current_device());
}

/// What a kernel's launch is: a number.
inline void enqueue(cudaStream_t on, int what) {
  ++machine().time;
  (on->captured != nullptr ? *on->captured : machine().direct).push_back(what);
}

/// Then the stream may not be waited for. (It may take memory, which would be the graph's: this one
/// refuses.)
inline bool capturing(cudaStream_t on) { return on != nullptr && on->captured != nullptr; }

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
  auto& here = fake::machine();
  if (here.fail("cudaMalloc") || here.used() + bytes > here.memory)
    return cudaErrorMemoryAllocation;
  *out = std::malloc(bytes);
  here.allocated[*out] = bytes;
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* memory) {
  fake::machine().allocated.erase(memory);
  fake::machine().pooled.erase(memory);
  return std::free(memory), cudaSuccess;
}
inline cudaError_t cudaMallocAsync(void** out, std::size_t bytes, cudaStream_t on) {
  if (fake::capturing(on)) return cudaErrorStreamCaptureUnsupported;
  auto const status = cudaMalloc(out, bytes);
  auto& here = fake::machine();
  if (status == cudaSuccess) here.pooled[*out] = bytes;
  here.most_pooled = std::max(here.most_pooled, fake::cuda::sum_of(here.pooled));
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
inline cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return std::memset(to, value, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind) {
  fake::use_current_device();
  return std::memcpy(to, from, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* out, int) {
  return *out = nullptr, cudaSuccess;
}
inline cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr which, void* out) {
  if (which != cudaMemPoolAttrUsedMemHigh) return cudaErrorInvalidValue;
  std::uint64_t const bytes = fake::machine().most_pooled;
  return std::memcpy(out, &bytes, sizeof bytes), cudaSuccess;
}

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned) {
  fake::use_current_device();
  ++fake::machine().streams;
  return *out = new CUstream_st, cudaSuccess;
}
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return *least = *greatest = 0, cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int) {
  return cudaStreamCreateWithFlags(out, flags);
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  --fake::machine().streams;
  return delete stream, cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t on) {
  fake::use_current_device();
  if (fake::capturing(on)) return cudaErrorStreamCaptureUnsupported;
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
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t on) {
  event->captured = fake::capturing(on);
  return event->time = fake::machine().time, cudaSuccess;
}
inline cudaError_t cudaEventElapsedTime(float* out, cudaEvent_t from, cudaEvent_t to) {
  if (from->captured || to->captured) return cudaErrorCapturedEvent;
  return *out = to->time - from->time, cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t) {
  return fake::machine().busy ? cudaErrorNotReady : cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!event->blocking) ++fake::machine().spinning_waits;
  if (fake::machine().fail("cudaEventSynchronize")) return cudaErrorUnknown;
  return event->captured ? cudaErrorCapturedEvent : cudaSuccess;
}

inline cudaError_t cudaStreamBeginCapture(cudaStream_t on, cudaStreamCaptureMode) {
  return on->captured = new std::vector<int>, cudaSuccess;
}
inline cudaError_t cudaStreamIsCapturing(cudaStream_t on, cudaStreamCaptureStatus* out) {
  *out = fake::capturing(on) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t on, cudaGraph_t* out) {
  *out = new CUgraph_st{std::move(*on->captured)};
  delete on->captured;
  on->captured = nullptr;
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
/// Takes other numbers, but not more or fewer.
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t to, cudaGraph_t from,
                                       cudaGraphExecUpdateResultInfo*) {
  if (to->nodes.size() != from->nodes.size()) return cudaErrorGraphExecUpdateFailure;
  return to->nodes = from->nodes, cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  return fake::machine().launches.push_back(graph->nodes), cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  --fake::machine().graphs;
  return delete graph, cudaSuccess;
}

}  // extern "C"
