// Devices, memory and copies of the fake CUDA runtime, and the functions that tests call.
#include "fake_cuda/runtime.hpp"

#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>

#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fake_cuda/machine.hpp"

namespace fake_cuda {
namespace {

/// Handles an access to memory without rights: ends the task that made it, or, where the host made
/// it, the program.
void on_segmentation_fault(int signal, siginfo_t* info, void*) {
  auto& task = running_task();
  if (task.name != nullptr) {
    task.fault_address = info->si_addr;
    siglongjmp(*task.return_point, 1);
  }
  char text[128];
  int const length =
      std::snprintf(text, sizeof text, "fake CUDA: the host touched %p\n", info->si_addr);
  static_cast<void>(!::write(STDERR_FILENO, text, static_cast<std::size_t>(length)));
  std::signal(signal, SIG_DFL);
}

void catch_segmentation_faults() {
  struct sigaction action {};
  action.sa_sigaction = on_segmentation_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
}

[[nodiscard]] bool is_machine_device(int device) {
  return device >= 0 && device < machine::get().options.devices;
}

[[nodiscard]] bool has_access(int device, memory::allocation const& to) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  return to.device == memory::pinned || to.device == device ||
         (!to.is_pooled && m.accesses.contains({device, to.device}));
}

[[nodiscard]] std::string to_string(memory::allocation const& allocation) {
  return allocation.device == memory::pinned ? "pinned memory"
                                             : "memory of GPU " + std::to_string(allocation.device);
}

/// The allocation that contains all these bytes; one of 0 bytes for pageable memory of the host.
/// Throws where they lie in a device's range, but not in one living allocation.
[[nodiscard]] memory::allocation allocation_of(void const* pointer, std::size_t bytes) {
  auto& store = machine::get().store;
  auto const found = store.find(pointer);
  if (found.bytes == 0 && store.is_device_address(pointer))
    throw std::runtime_error("the memory of a device there is not allocated");
  auto const* const from = static_cast<std::byte const*>(pointer);
  if (found.bytes > 0 && from + bytes > found.begin + found.bytes)
    throw std::runtime_error(std::to_string(bytes) + " bytes go beyond the end of " +
                             to_string(found));
  return found;
}

cudaError_t allocate(void** out, int device, std::size_t bytes, bool is_pooled) {
  auto& m = machine::get();
  if (m.store.used(device) + bytes > m.options.memory)
    return calling_thread().last_error = cudaErrorMemoryAllocation;
  *out = m.store.allocate(device, bytes, is_pooled);
  std::scoped_lock const lock(m.mutex);
  ++m.history.allocations;
  return cudaSuccess;
}

void release(void* memory, int device, char const* function) {
  try {
    machine::get().store.release(memory);
  } catch (std::runtime_error const& e) {
    fail(device, std::string(function) + ": " + e.what());
  }
}

cudaError_t copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t stream, char const* function, bool is_synchronous) {
  if (bytes == 0) return cudaSuccess;
  memory::allocation target, source;
  try {
    target = allocation_of(to, bytes);
    source = allocation_of(from, bytes);
  } catch (std::runtime_error const& e) {
    return refuse(cudaErrorInvalidValue, std::string(function) + ": " + e.what());
  }
  auto const is_on_device = [](memory::allocation const& p) {
    return p.bytes > 0 && p.device >= 0;
  };
  bool const from_device = is_on_device(source), to_device = is_on_device(target);
  if (kind != cudaMemcpyDefault &&
      kind != (from_device ? to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost
               : to_device ? cudaMemcpyHostToDevice
                           : cudaMemcpyHostToHost))
    return refuse(cudaErrorInvalidValue,
                  std::string(function) + ": the direction is not that of the pointers");
  bool const from_pageable = source.bytes == 0, to_pageable = target.bytes == 0;
  if ((from_pageable || to_pageable) && stream->captured != nullptr)
    if (auto const status = check_no_capture(function); status != cudaSuccess) return status;
  {
    auto& m = machine::get();
    std::scoped_lock const lock(m.mutex);
    if (from_pageable || to_pageable) m.history.pageable_bytes += bytes;
    if (to_device && !from_device) m.history.uploaded_bytes += bytes;
  }
  // Pageable memory is read and written before the call returns. CUDA promises the write only for
  // copies that wait anyway; lazy streams reveal code that relies on more.
  auto pageable_copy = from_pageable ? std::make_shared<std::vector<std::byte>>(
                                           static_cast<std::byte const*>(from),
                                           static_cast<std::byte const*>(from) + bytes)
                                     : nullptr;
  wait_for_context(stream->device);
  auto work = [=] {
    if (!from_pageable) static_cast<void>(allocation_of(from, bytes));  // throws when freed since
    if (!to_pageable) static_cast<void>(allocation_of(to, bytes));
    std::memmove(to, pageable_copy != nullptr ? pageable_copy->data() : from, bytes);
  };
  bool const must_wait = is_synchronous ? !to_device : to_pageable && !machine::get().options.lazy;
  return must_wait ? run_and_wait(stream, "copy", std::move(work))
                   : enqueue(stream, "copy", std::move(work));
}

}  // namespace

void restart(machine_options const& options) {
  auto& m = machine::get();
  for (int d = 0; d < memory::max_devices; ++d) {
    wait_for_device(d);
    if (auto const old = std::move(m.default_streams[d])) old->work->close();
  }
  // The owner of memory on a device that has failed cannot free the memory.
  bool has_failed_device = false;
  for (auto const& failure : m.failure) has_failed_device = has_failed_device || failure != nullptr;
  if (has_failed_device) m.store.release_all();
  if (has_failed_device) m.handles = 0;
  if (live_objects() > 0)
    throw std::logic_error(
        "fake CUDA: " + std::to_string(m.handles) + " streams, events or graphs and " +
        std::to_string(m.store.allocation_count()) + " pieces of memory are still alive");
  std::scoped_lock const lock(m.mutex);
  m.store.reset();
  m.options = options;
  m.history = {};
  m.accesses.clear();
  m.streams_made = 0;
  m.failing_function.clear();
  m.loaded_kernels.clear();
  for (int d = 0; d < memory::max_devices; ++d) {
    m.failure[d] = nullptr;
    m.peak_pooled_bytes[d] = 0;
    m.queues[d].clear();
  }
  calling_thread() = {};
  catch_segmentation_faults();  // a test program may have put another handler there
}

void fail_next(std::string function) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  m.failing_function = std::move(function);
}

record history() {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  return m.history;
}

std::size_t live_objects() {
  for (int device = 0; device < memory::max_devices; ++device) wait_for_device(device);
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  return m.handles + m.store.allocation_count();
}

int device_of(void const* memory) {
  auto const found = machine::get().store.find(memory);
  return found.bytes > 0 ? found.device : memory::pinned;
}
int device_of(cudaStream_t stream) { return resolve(stream)->device; }

void unmap(void* memory) { release(memory, device_of(memory), "unmap"); }

void wait_for_context(int device) { in_context const entered(device); }
bool is_context_taken(int device) {
  auto& m = machine::get();
  if (!m.options.context_lock) return false;
  return !std::unique_lock(m.contexts[device], std::try_to_lock).owns_lock();
}

bool has_failed(int device) { return status_of(device) != cudaSuccess; }

void require_access(int device, void const* memory, std::size_t bytes, std::string_view label) {
  auto const found = allocation_of(memory, bytes);
  if (found.bytes == 0)
    throw std::runtime_error(std::string(label) + " is memory of the host that is not pinned");
  if (!has_access(device, found))
    throw std::runtime_error(std::string(label) + " is " + to_string(found) + ", to which GPU " +
                             std::to_string(device) + " has no access");
}

std::uint64_t chance(std::uint64_t key) {
  std::uint64_t const seed = machine::get().options.seed;
  if (seed == 0) return 0;
  std::uint64_t x = seed * 0x9e3779b97f4a7c15U + key;  // splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return (x ^ (x >> 31)) | 1;
}

cudaError_t launch(cudaStream_t stream, kernel_launch const& kernel,
                   std::function<void(std::uint64_t)> run) {
  stream = resolve(stream);
  in_context const inside(stream->device);
  if (stream->device != calling_thread().device)
    return refuse(cudaErrorInvalidResourceHandle,
                  std::string(kernel.name) + ": the stream is of another device than the current");
  if (kernel.threads == 0 || kernel.threads > 1024 || kernel.blocks == 0 ||
      kernel.blocks >= (1U << 31U) || kernel.shared_bytes > machine::get().options.shared_memory)
    return refuse(cudaErrorInvalidConfiguration,
                  std::string(kernel.name) + ": no device runs blocks of this size");
  auto capturing = cudaStreamCaptureStatusNone;
  static_cast<void>(cudaStreamIsCapturing(stream, &capturing));
  if (machine::get().options.loads_lazily && capturing == cudaStreamCaptureStatusNone) {
    bool const is_new = [&] {
      std::scoped_lock const lock(machine::get().mutex);
      return machine::get().loaded_kernels.emplace(stream->device, kernel.name).second;
    }();
    if (is_new) wait_for_device(stream->device);
  }
  return enqueue(stream, kernel.name, [kernel, run = std::move(run), device = stream->device] {
    auto& m = machine::get();
    for (std::size_t offset = 0; offset + sizeof(void*) <= kernel.arguments.size();
         offset += sizeof(void*)) {
      void const* pointer = nullptr;  // the eight bytes may be something else
      std::memcpy(&pointer, kernel.arguments.data() + offset, sizeof pointer);
      auto const found = m.store.find(pointer);
      if (found.bytes > 0 && !has_access(device, found))
        throw std::runtime_error("it was given " + to_string(found) + ", to which GPU " +
                                 std::to_string(device) + " has no access");
    }
    std::size_t number = 0;
    {
      std::scoped_lock const lock(m.mutex);
      number = ++m.history.kernels;
    }
    run(chance(number));
  });
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine::get().options.devices;
  return *count > 0 ? cudaSuccess : calling_thread().last_error = cudaErrorNoDevice;
}
cudaError_t cudaGetDevice(int* device) { return *device = calling_thread().device, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  if (!is_machine_device(device)) return refuse(cudaErrorInvalidDevice, "cudaSetDevice");
  calling_thread().device = device;
  return use_current_device(), cudaSuccess;
}
cudaError_t cudaGetLastError() {
  if (auto const status = status_of(calling_thread().device); status != cudaSuccess) return status;
  return std::exchange(calling_thread().last_error, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  auto const status = status_of(calling_thread().device);
  return status != cudaSuccess ? status : calling_thread().last_error;
}
char const* cudaGetErrorName(cudaError_t status) {
  static thread_local std::string text;
  return (text = "error " + std::to_string(static_cast<int>(status)) + " of the fake CUDA").c_str();
}
char const* cudaGetErrorString(cudaError_t status) {
  static thread_local std::string text;
  if (status == cudaErrorLaunchFailure)
    for (auto const& failure : machine::get().failure)
      if (failure != nullptr) return failure;
  auto const failures = history().failures;
  return (text = failures.empty() ? "nothing was refused" : failures.back()).c_str();
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (!is_machine_device(device)) return refuse(cudaErrorInvalidDevice, "cudaGetDeviceProperties");
  *out = {};
  std::strcpy(out->name, "a fake GPU");
  out->major = machine::get().options.major;
  out->multiProcessorCount = 2;
  out->totalGlobalMem = machine::get().options.memory;
  out->uuid.bytes[15] = static_cast<char>(device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *out = static_cast<int>(machine::get().options.shared_memory);
      return cudaSuccess;
    case cudaDevAttrL2CacheSize: return *out = 1 << 10, cudaSuccess;
    case cudaDevAttrMultiProcessorCount: return *out = 2, cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor: return *out = machine::get().options.major, cudaSuccess;
    default: return *out = 0, cudaSuccess;
  }
}
cudaError_t cudaDeviceGetPCIBusId(char* out, int length, int device) {
  std::snprintf(out, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* out, int device, int peer) {
  *out = machine::get().options.peers && device != peer && is_machine_device(peer) ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  int possible = 0;
  static_cast<void>(cudaDeviceCanAccessPeer(&possible, calling_thread().device, peer));
  if (possible == 0) return refuse(cudaErrorPeerAccessUnsupported, "cudaDeviceEnablePeerAccess");
  if (occurs(fault::no_access)) return cudaSuccess;
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  if (!m.accesses.insert({calling_thread().device, peer}).second)
    return calling_thread().last_error = cudaErrorPeerAccessAlreadyEnabled;
  ++m.history.accesses_enabled;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  if (auto const status = check_no_capture("cudaDeviceSynchronize"); status != cudaSuccess)
    return status;
  wait_for_device(calling_thread().device);
  return status_of(calling_thread().device);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = machine::get().options.memory;
  *free = *total - machine::get().store.used(calling_thread().device);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  use_current_device();
  in_context const inside(calling_thread().device);
  if (auto const status = check_no_capture("cudaMalloc"); status != cudaSuccess) return status;
  if (auto const status = status_of(calling_thread().device); status != cudaSuccess) return status;
  if (must_fail("cudaMalloc")) return calling_thread().last_error = cudaErrorMemoryAllocation;
  return allocate(out, calling_thread().device, bytes, false);
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  if (auto const status = check_no_capture("cudaFree"); status != cudaSuccess) return status;
  auto const found = machine::get().store.find(memory);
  int const device = found.bytes > 0 ? found.device : calling_thread().device;
  in_context const inside(device);
  wait_for_device(device);
  release(memory, device, "cudaFree");
  return status_of(device);
}
cudaError_t cudaMallocAsync(void** out, std::size_t bytes, cudaStream_t stream) {
  use_current_device();
  stream = resolve(stream);
  in_context const inside(stream->device);
  // Memory that belongs to a graph is not supported.
  if (stream->captured != nullptr)
    if (auto const status = check_no_capture("cudaMallocAsync"); status != cudaSuccess)
      return status;
  if (must_fail("cudaMallocAsync")) return calling_thread().last_error = cudaErrorMemoryAllocation;
  auto const status = allocate(out, stream->device, bytes, true);
  auto& m = machine::get();
  std::size_t const used = m.store.used(stream->device, true);
  std::scoped_lock const lock(m.mutex);
  m.peak_pooled_bytes[stream->device] = std::max(m.peak_pooled_bytes[stream->device], used);
  return status;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t stream) {
  if (memory == nullptr) return cudaSuccess;
  stream = resolve(stream);
  in_context const inside(stream->device);
  return enqueue(stream, "cudaFreeAsync",
                 [memory, device = stream->device] { release(memory, device, "cudaFreeAsync"); });
}
cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  use_current_device();
  in_context const inside(calling_thread().device);
  if (auto const status = check_no_capture("cudaHostAlloc"); status != cudaSuccess) return status;
  auto& m = machine::get();
  *out = m.store.allocate(memory::pinned, bytes);
  std::scoped_lock const lock(m.mutex);
  ++m.history.allocations;
  ++m.history.pinned_pieces;
  m.history.pinned_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  for (int d = 0; d < machine::get().options.devices; ++d) {
    in_context const inside(d);
    wait_for_device(d);
  }
  release(memory, calling_thread().device, "cudaFreeHost");
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, void const* memory) {
  auto const found = machine::get().store.find(memory);
  *out = {};
  out->type = found.bytes == 0                 ? cudaMemoryTypeUnregistered
              : found.device == memory::pinned ? cudaMemoryTypeHost
                                               : cudaMemoryTypeDevice;
  out->device = found.bytes > 0 && found.device >= 0 ? found.device : calling_thread().device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* out, int device) {
  *out = reinterpret_cast<cudaMemPool_t>(static_cast<std::intptr_t>(device) + 1);
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* out) {
  if (attribute != cudaMemPoolAttrUsedMemHigh)
    return refuse(cudaErrorInvalidValue, "cudaMemPoolGetAttribute");
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  std::uint64_t const bytes = m.peak_pooled_bytes[reinterpret_cast<std::intptr_t>(pool) - 1];
  return std::memcpy(out, &bytes, sizeof bytes), cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  use_current_device();
  if (bytes == 0) return cudaSuccess;
  stream = resolve(stream);
  in_context const inside(stream->device);
  return enqueue(stream, "cudaMemset", [=, device = stream->device] {
    require_access(device, to, bytes, "what is set");
    std::memset(to, value, bytes);
  });
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (auto const status = check_no_capture("cudaMemset"); status != cudaSuccess) return status;
  return cudaMemsetAsync(to, value, bytes, nullptr);
}
cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  use_current_device();
  if (auto const status = check_no_capture("cudaMemcpy"); status != cudaSuccess) return status;
  return copy(to, from, bytes, kind, resolve(nullptr), "cudaMemcpy", true);
}
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  use_current_device();
  return copy(to, from, bytes, kind, resolve(stream), "cudaMemcpyAsync", false);
}

}  // extern "C"
