// Devices, memory and copies of the fake CUDA runtime, and what tests ask of it.
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
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fake_cuda/machine.hpp"

namespace fake_cuda {
namespace {

/// Memory without rights was touched: by a task, which ends, or by the host, whose program does.
void on_segmentation_fault(int signal, siginfo_t* about, void*) {
  auto& by = running_task();
  if (by.name != nullptr) {
    by.touched = about->si_addr;
    siglongjmp(*by.back, 1);
  }
  char text[128];
  int const length =
      std::snprintf(text, sizeof text, "fake CUDA: the host touched %p\n", about->si_addr);
  static_cast<void>(!::write(STDERR_FILENO, text, static_cast<std::size_t>(length)));
  std::signal(signal, SIG_DFL);
}

void catch_segmentation_faults() {
  struct sigaction action {};
  action.sa_sigaction = on_segmentation_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
}

[[nodiscard]] bool is_of_machine(int device) {
  return device >= 0 && device < machine::get().options.devices;
}

[[nodiscard]] bool has_access(int device, memory::piece const& to) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  return to.device == memory::pinned || to.device == device ||
         (!to.pooled && m.accesses.contains({device, to.device}));
}

[[nodiscard]] std::string text_of(memory::piece const& of) {
  return of.device == memory::pinned ? "pinned memory"
                                     : "memory of GPU " + std::to_string(of.device);
}

/// The piece with all these bytes; none: they are the host's. Throws where they are a device's, but
/// not of one living piece.
[[nodiscard]] memory::piece piece_of(void const* where, std::size_t bytes) {
  auto& store = machine::get().store;
  auto const found = store.find(where);
  if (found.bytes == 0 && store.is_of_device(where))
    throw std::runtime_error("the memory of a device there is not allocated");
  auto const* const from = static_cast<std::byte const*>(where);
  if (found.bytes > 0 && from + bytes > found.begin + found.bytes)
    throw std::runtime_error(std::to_string(bytes) + " bytes go beyond the end of " +
                             text_of(found));
  return found;
}

cudaError_t take(void** out, int device, std::size_t bytes, bool pooled) {
  auto& m = machine::get();
  if (m.store.used(device) + bytes > m.options.memory)
    return here().last = cudaErrorMemoryAllocation;
  *out = m.store.take(device, bytes, pooled);
  std::scoped_lock const lock(m.mutex);
  ++m.happened.allocations;
  return cudaSuccess;
}

void give_back(void* memory, int device, char const* function) {
  try {
    machine::get().store.give_back(memory);
  } catch (std::runtime_error const& e) {
    fail(device, std::string(function) + ": " + e.what());
  }
}

cudaError_t copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t on, char const* function, bool waits) {
  if (bytes == 0) return cudaSuccess;
  memory::piece target, source;
  try {
    target = piece_of(to, bytes);
    source = piece_of(from, bytes);
  } catch (std::runtime_error const& e) {
    return refuse(cudaErrorInvalidValue, std::string(function) + ": " + e.what());
  }
  auto const of_device = [](memory::piece const& p) { return p.bytes > 0 && p.device >= 0; };
  bool const from_device = of_device(source), to_device = of_device(target);
  if (kind != cudaMemcpyDefault &&
      kind != (from_device ? to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost
               : to_device ? cudaMemcpyHostToDevice
                           : cudaMemcpyHostToHost))
    return refuse(cudaErrorInvalidValue,
                  std::string(function) + ": the direction is not that of the pointers");
  bool const from_pageable = source.bytes == 0, to_pageable = target.bytes == 0;
  if ((from_pageable || to_pageable) && on->captured != nullptr)
    if (auto const status = not_while_capturing(function); status != cudaSuccess) return status;
  {
    auto& m = machine::get();
    std::scoped_lock const lock(m.mutex);
    if (from_pageable || to_pageable) m.happened.pageable_bytes += bytes;
    if (to_device && !from_device) m.happened.uploaded_bytes += bytes;
  }
  // pageable memory is read before the call returns, and written before it does; that CUDA promises
  // the latter only of what waits anyway, lazy streams show
  auto kept = from_pageable ? std::make_shared<std::vector<std::byte>>(
                                  static_cast<std::byte const*>(from),
                                  static_cast<std::byte const*>(from) + bytes)
                            : nullptr;
  come_to_context(on->device);
  auto const status = enqueue(on, "copy", [=] {
    if (!from_pageable) static_cast<void>(piece_of(from, bytes));  // still alive
    if (!to_pageable) static_cast<void>(piece_of(to, bytes));
    std::memmove(to, kept != nullptr ? kept->data() : from, bytes);
  });
  bool const is_over = waits ? !to_device : to_pageable && !machine::get().options.lazy;
  if (status != cudaSuccess || !is_over) return status;
  on->work->wait(on->work->last());
  return status_of(on->device);
}

}  // namespace

void restart(machine_options const& options) {
  auto& m = machine::get();
  for (int d = 0; d < memory::most_devices; ++d) {
    wait_for_device(d);
    if (auto const old = std::move(m.default_streams[d])) old->work->close();
  }
  bool lost = false;  // what a device had that failed cannot be given back
  for (auto const& failure : m.failure) lost = lost || failure != nullptr;
  if (lost) m.store.drop_all();
  if (lost) m.handles = 0;
  if (alive() > 0)
    throw std::logic_error("fake CUDA: " + std::to_string(m.handles) +
                           " streams, events or graphs and " + std::to_string(m.store.pieces()) +
                           " pieces of memory are still alive");
  std::scoped_lock const lock(m.mutex);
  m.store.forget();
  m.options = options;
  m.happened = {};
  m.accesses.clear();
  m.streams_made = 0;
  m.fails_next.clear();
  m.loaded.clear();
  for (int d = 0; d < memory::most_devices; ++d) {
    m.failure[d] = nullptr;
    m.most_pooled[d] = 0;
    m.queues[d].clear();
  }
  here() = {};
  catch_segmentation_faults();  // a test program may have put another handler there
}

void fail_next(std::string function) {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  m.fails_next = std::move(function);
}

record happened() {
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  return m.happened;
}

std::size_t alive() {
  for (int device = 0; device < memory::most_devices; ++device) wait_for_device(device);
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  return m.handles + m.store.pieces();
}

int device_of(void const* memory) {
  auto const found = machine::get().store.find(memory);
  return found.bytes > 0 ? found.device : memory::pinned;
}
int device_of(cudaStream_t stream) { return resolve(stream)->device; }

void unmap(void* memory) { give_back(memory, device_of(memory), "unmap"); }

void come_to_context(int device) { in_context const came(device); }
bool is_context_taken(int device) {
  auto& m = machine::get();
  if (!m.options.context_lock) return false;
  return !std::unique_lock(m.contexts[device], std::try_to_lock).owns_lock();
}

bool has_failed(int device) { return status_of(device) != cudaSuccess; }

void require_access(int device, void const* memory, std::size_t bytes, std::string_view what) {
  auto const found = piece_of(memory, bytes);
  if (found.bytes == 0)
    throw std::runtime_error(std::string(what) + " is memory of the host that is not pinned");
  if (!has_access(device, found))
    throw std::runtime_error(std::string(what) + " is " + text_of(found) + ", to which GPU " +
                             std::to_string(device) + " has no access");
}

std::uint64_t chance(std::uint64_t what) {
  std::uint64_t const seed = machine::get().options.seed;
  if (seed == 0) return 0;
  std::uint64_t x = seed * 0x9e3779b97f4a7c15U + what;  // splitmix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return (x ^ (x >> 31)) | 1;
}

cudaError_t launch(cudaStream_t on, kernel_launch const& what,
                   std::function<void(std::uint64_t)> run) {
  on = resolve(on);
  in_context const inside(on->device);
  if (on->device != here().device)
    return refuse(cudaErrorInvalidResourceHandle,
                  std::string(what.name) + ": the stream is of another device than the current");
  if (what.threads == 0 || what.threads > 1024 || what.blocks == 0 || what.blocks >= (1U << 31U) ||
      what.shared_bytes > machine::get().options.shared_memory)
    return refuse(cudaErrorInvalidConfiguration,
                  std::string(what.name) + ": no device runs blocks of this size");
  auto capturing = cudaStreamCaptureStatusNone;
  static_cast<void>(cudaStreamIsCapturing(on, &capturing));
  if (machine::get().options.loads_lazily && capturing == cudaStreamCaptureStatusNone) {
    bool const is_new = [&] {
      std::scoped_lock const lock(machine::get().mutex);
      return machine::get().loaded.emplace(on->device, what.name).second;
    }();
    if (is_new) wait_for_device(on->device);
  }
  return enqueue(on, what.name, [what, run = std::move(run), device = on->device] {
    auto& m = machine::get();
    for (std::size_t at = 0; at + sizeof(void*) <= what.arguments.size(); at += sizeof(void*)) {
      void const* pointer = nullptr;  // or any other eight bytes
      std::memcpy(&pointer, what.arguments.data() + at, sizeof pointer);
      auto const found = m.store.find(pointer);
      if (found.bytes > 0 && !has_access(device, found))
        throw std::runtime_error("it was given " + text_of(found) + ", to which GPU " +
                                 std::to_string(device) + " has no access");
    }
    std::size_t number = 0;
    {
      std::scoped_lock const lock(m.mutex);
      number = ++m.happened.kernels;
    }
    run(chance(number));
  });
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine::get().options.devices;
  return *count > 0 ? cudaSuccess : here().last = cudaErrorNoDevice;
}
cudaError_t cudaGetDevice(int* device) { return *device = here().device, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  if (!is_of_machine(device)) return refuse(cudaErrorInvalidDevice, "cudaSetDevice");
  here().device = device;
  return use_current_device(), cudaSuccess;
}
cudaError_t cudaGetLastError() {
  if (auto const status = status_of(here().device); status != cudaSuccess) return status;
  return std::exchange(here().last, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  auto const status = status_of(here().device);
  return status != cudaSuccess ? status : here().last;
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
  auto const all = happened().failures;
  return (text = all.empty() ? "nothing was refused" : all.back()).c_str();
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  if (!is_of_machine(device)) return refuse(cudaErrorInvalidDevice, "cudaGetDeviceProperties");
  *out = {};
  std::strcpy(out->name, "a fake GPU");
  out->major = machine::get().options.major;
  out->multiProcessorCount = 2;
  out->totalGlobalMem = machine::get().options.memory;
  out->uuid.bytes[15] = static_cast<char>(device);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr which, int) {
  switch (which) {
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
  *out = machine::get().options.peers && device != peer && is_of_machine(peer) ? 1 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  int possible = 0;
  static_cast<void>(cudaDeviceCanAccessPeer(&possible, here().device, peer));
  if (possible == 0) return refuse(cudaErrorPeerAccessUnsupported, "cudaDeviceEnablePeerAccess");
  if (strikes(fault::no_access)) return cudaSuccess;
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  if (!m.accesses.insert({here().device, peer}).second)
    return here().last = cudaErrorPeerAccessAlreadyEnabled;
  ++m.happened.accesses_enabled;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  if (auto const status = not_while_capturing("cudaDeviceSynchronize"); status != cudaSuccess)
    return status;
  wait_for_device(here().device);
  return status_of(here().device);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = machine::get().options.memory;
  *free = *total - machine::get().store.used(here().device);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** out, std::size_t bytes) {
  use_current_device();
  in_context const inside(here().device);
  if (auto const status = not_while_capturing("cudaMalloc"); status != cudaSuccess) return status;
  if (auto const status = status_of(here().device); status != cudaSuccess) return status;
  if (fails_next("cudaMalloc")) return here().last = cudaErrorMemoryAllocation;
  return take(out, here().device, bytes, false);
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  if (auto const status = not_while_capturing("cudaFree"); status != cudaSuccess) return status;
  auto const found = machine::get().store.find(memory);
  int const device = found.bytes > 0 ? found.device : here().device;
  in_context const inside(device);
  wait_for_device(device);
  give_back(memory, device, "cudaFree");
  return status_of(device);
}
cudaError_t cudaMallocAsync(void** out, std::size_t bytes, cudaStream_t on) {
  use_current_device();
  on = resolve(on);
  in_context const inside(on->device);
  if (on->captured != nullptr)  // it would be the graph's: this runtime refuses
    if (auto const status = not_while_capturing("cudaMallocAsync"); status != cudaSuccess)
      return status;
  if (fails_next("cudaMallocAsync")) return here().last = cudaErrorMemoryAllocation;
  auto const status = take(out, on->device, bytes, true);
  auto& m = machine::get();
  std::size_t const used = m.store.used(on->device, true);
  std::scoped_lock const lock(m.mutex);
  m.most_pooled[on->device] = std::max(m.most_pooled[on->device], used);
  return status;
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t on) {
  if (memory == nullptr) return cudaSuccess;
  on = resolve(on);
  in_context const inside(on->device);
  return enqueue(on, "cudaFreeAsync",
                 [memory, device = on->device] { give_back(memory, device, "cudaFreeAsync"); });
}
cudaError_t cudaHostAlloc(void** out, std::size_t bytes, unsigned) {
  use_current_device();
  in_context const inside(here().device);
  if (auto const status = not_while_capturing("cudaHostAlloc"); status != cudaSuccess)
    return status;
  auto& m = machine::get();
  *out = m.store.take(memory::pinned, bytes);
  std::scoped_lock const lock(m.mutex);
  ++m.happened.allocations;
  ++m.happened.pinned_pieces;
  m.happened.pinned_bytes += bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  for (int d = 0; d < machine::get().options.devices; ++d) {
    in_context const inside(d);
    wait_for_device(d);
  }
  give_back(memory, here().device, "cudaFreeHost");
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* out, void const* memory) {
  auto const found = machine::get().store.find(memory);
  *out = {};
  out->type = found.bytes == 0                 ? cudaMemoryTypeUnregistered
              : found.device == memory::pinned ? cudaMemoryTypeHost
                                               : cudaMemoryTypeDevice;
  out->device = found.bytes > 0 && found.device >= 0 ? found.device : here().device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* out, int device) {
  *out = reinterpret_cast<cudaMemPool_t>(static_cast<std::intptr_t>(device) + 1);
  return cudaSuccess;
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr which, void* out) {
  if (which != cudaMemPoolAttrUsedMemHigh)
    return refuse(cudaErrorInvalidValue, "cudaMemPoolGetAttribute");
  auto& m = machine::get();
  std::scoped_lock const lock(m.mutex);
  std::uint64_t const bytes = m.most_pooled[reinterpret_cast<std::intptr_t>(pool) - 1];
  return std::memcpy(out, &bytes, sizeof bytes), cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t on) {
  use_current_device();
  if (bytes == 0) return cudaSuccess;
  on = resolve(on);
  in_context const inside(on->device);
  return enqueue(on, "cudaMemset", [=, device = on->device] {
    require_access(device, to, bytes, "what is set");
    std::memset(to, value, bytes);
  });
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (auto const status = not_while_capturing("cudaMemset"); status != cudaSuccess) return status;
  return cudaMemsetAsync(to, value, bytes, nullptr);
}
cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  use_current_device();
  if (auto const status = not_while_capturing("cudaMemcpy"); status != cudaSuccess) return status;
  return copy(to, from, bytes, kind, resolve(nullptr), "cudaMemcpy", true);
}
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t on) {
  use_current_device();
  return copy(to, from, bytes, kind, resolve(on), "cudaMemcpyAsync", false);
}

}  // extern "C"
