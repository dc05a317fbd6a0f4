// cuda::device: a GPU with its memory and streams.
//
// It counts the bytes that it has allocated, so that the use of a run can be compared with the
// prediction of the meta device. Copies of a device share their counters. Allocation and freeing
// wait for the whole GPU. So memory is allocated at the beginning of a run, by a plan; operations
// use their stream's scratch memory.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/core/dtype.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/device/cuda/gpu_faults.hpp>
#include <parallel/device/cuda/gpu_meter.hpp>
#include <parallel/device/cuda/nvml.hpp>
#include <parallel/device/cuda/pinned_pool.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/device/usage.hpp>

namespace parallel::cuda {

class device {
 public:
  using stream_type = stream;
  static constexpr bool host_reaches_memory = false;
  /// The first launch of a kernel loads it, and may wait for all work of the GPU.
  static constexpr bool waits_for_all_streams = true;

  /// The GPU with the ordinal compute.device. It becomes current on the calling thread. Throws
  /// `error` if there is no such GPU, or if it is too old: bf16 needs compute capability 8.0.
  explicit device(stream_options compute = {}) : compute_(compute), ordinal_(compute.device) {
    int const ordinal = ordinal_;
    int count = 0;
    auto const status = cudaGetDeviceCount(&count);
    require(status == cudaSuccess && count > 0, "no GPU can be used: ",
            status == cudaSuccess ? "the driver sees none" : cudaGetErrorString(status),
            "; use device=cpu");
    require(ordinal >= 0 && ordinal < count, "there is no GPU ", ordinal, ": this machine has ",
            count, ", counted from 0");
    check(cudaGetDeviceProperties(&properties_, ordinal), "cudaGetDeviceProperties");
    require(properties_.major >= 8, "GPU ", ordinal, " (", properties_.name,
            ") has compute capability ", properties_.major, ".", properties_.minor,
            "; bf16 needs 8.0 (A100) or newer");
    check(cudaSetDevice(ordinal), "cudaSetDevice");
    pinned_ = std::make_shared<pinned_pool>(ordinal);
    char address[32] = {};
    check(cudaDeviceGetPCIBusId(address, sizeof address, ordinal), "cudaDeviceGetPCIBusId");
    nvml_ = std::make_shared<nvml_device>(address);
  }

  /// The number of GPUs of this machine; 0 without a driver.
  [[nodiscard]] static int count() {
    int count = 0;
    if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
    static_cast<void>(cudaGetLastError());
    return 0;
  }

  /// Uninitialised memory of the GPU for `count` elements, aligned to 256 bytes. Throws
  /// `out_of_memory` if there is not enough.
  template <class T>
  [[nodiscard]] buffer<T> allocate(std::size_t count) const {
    static_assert(std::is_trivially_copyable_v<T>);
    device_scope const scope(ordinal_);
    return counted<T>(count, [](std::size_t bytes) {
      void* data = nullptr;
      auto const status = cudaMalloc(&data, bytes);
      return std::shared_ptr<void>(status == cudaSuccess ? data : nullptr,
                                   [](void* p) { static_cast<void>(cudaFree(p)); });
    });
  }

  /// Zeroed memory.
  template <class T>
  [[nodiscard]] buffer<T> allocate_zeroed(std::size_t count) const {
    return zeroed(allocate<T>(count));
  }

  /// See parallel::allocate_exchanged.
  template <class T>
  [[nodiscard]] buffer<T> allocate_exchanged(std::size_t count, std::size_t exchanged_count) const {
    auto const& [allocate_source, min_bytes] = *exchanged_;
    if (!allocate_source || exchanged_count * sizeof(T) < min_bytes)
      return allocate_zeroed<T>(count);
    device_scope const scope(ordinal_);
    return zeroed(counted<T>(count, allocate_source));
  }

  /// Sets the source of exchanged memory for this device and its copies.
  void take_exchanged_from(memory_source source) { *exchanged_ = std::move(source); }

  /// Allocates pinned memory in advance for later small requests to allocate_shared.
  void reserve_shared() const { pinned_->reserve(); }

  /// Zeroed memory of the host that operations on this device also reach, over the bus. It is meant
  /// for few numbers, such as sums, or for large data that is read once per step. It is pinned, not
  /// counted, and reused by the device for later requests of the same size.
  template <class T>
  [[nodiscard]] buffer<T> allocate_shared(std::size_t count) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::size_t const bytes = std::max<std::size_t>(1, count * sizeof(T));
    void* const data = pinned_->take(bytes);
    std::fill_n(static_cast<std::byte*>(data), bytes, std::byte{});
    return {std::shared_ptr<void>(data,
                                  [pool = pinned_, bytes](void* p) { pool->give_back(p, bytes); }),
            static_cast<T*>(data), count};
  }

  /// upload and download copy between the host's memory and the device's, and block. Nothing else
  /// may use the memory meanwhile.
  template <class T>
  void upload(std::span<T> to, std::type_identity_t<std::span<T const>> from) const {
    transfer(to.data(), from.data(), to.size(), from.size(), sizeof(T));
  }
  template <class T>
  void download(std::span<T> to, std::type_identity_t<std::span<T const>> from) const {
    transfer(to.data(), from.data(), to.size(), from.size(), sizeof(T));
  }

  /// Allocated bytes that are not freed.
  [[nodiscard]] std::size_t bytes() const { return usage_->live; }
  /// The maximum of bytes() so far.
  [[nodiscard]] std::size_t peak_bytes() const { return usage_->peak; }

  /// The largest total size of the operations' scratch memory so far, over all streams of the
  /// process. It is the number that the GPU's pool for stream-ordered allocation counts.
  [[nodiscard]] std::size_t peak_scratch_bytes() const {
    cudaMemPool_t pool = nullptr;
    check(cudaDeviceGetDefaultMemPool(&pool, ordinal_), "cudaDeviceGetDefaultMemPool");
    std::uint64_t bytes = 0;
    check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &bytes),
          "cudaMemPoolGetAttribute");
    return bytes;
  }

  /// Free bytes of the GPU's memory.
  [[nodiscard]] std::size_t available_bytes() const {
    device_scope const scope(ordinal_);
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
  }

  /// Floating-point operations per second of dense products of `type`, by the data sheet; 0:
  /// unknown for this GPU. Products of f32 do not round their factors to TF32.
  [[nodiscard]] double peak_flops(dtype type) const {
    struct entry {
      char const* name;
      double bf16, f32;
    };
    static constexpr entry peaks[] = {{"GH200", 989.4e12, 66.9e12},     {"H200", 989.4e12, 66.9e12},
                                      {"H100 PCIe", 756.5e12, 51.2e12}, {"H100", 989.4e12, 66.9e12},
                                      {"B200", 2250e12, 80e12},         {"A100", 312e12, 19.5e12}};
    for (auto const& gpu : peaks)
      if (name().find(gpu.name) != std::string::npos)
        return type == dtype::bf16 ? gpu.bf16 : type == dtype::f32 ? gpu.f32 : 0.0;
    return 0.0;
  }

  /// The GPU's UUID. It is equal for all devices, of any rank and process, that are the same GPU,
  /// and different for any other GPU of any machine.
  [[nodiscard]] std::string identity() const {
    return {std::begin(properties_.uuid.bytes), std::end(properties_.uuid.bytes)};
  }

  /// Names and values of the GPU's own measurements, for the metrics of a run; see gpu_meter.
  [[nodiscard]] std::vector<gpu_meter::reading> readings() const {
    auto out = gpu_meter(nvml_).read();
    out.emplace_back("memory/peak_device_gb",
                     static_cast<double>(peak_bytes() + peak_scratch_bytes()) / 1e9);
    return out;
  }

  /// Begins to collect faults of the GPU itself.
  [[nodiscard]] gpu_faults watch_faults() const { return gpu_faults(nvml_); }

  /// Options for this device's streams.
  [[nodiscard]] stream_options const& compute_options() const { return compute_; }
  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] std::string name() const { return properties_.name; }
  [[nodiscard]] cudaDeviceProp const& properties() const { return properties_; }

 private:
  /// A buffer over the memory that take(bytes) returns. It is counted, and freed while this GPU is
  /// current. Throws `out_of_memory` if take returns null.
  template <class T, class Take>
  buffer<T> counted(std::size_t count, Take const& take) const {
    std::size_t const bytes = count * sizeof(T);
    std::shared_ptr<void> memory = take(std::max<std::size_t>(1, bytes));
    void* const data = memory.get();
    if (data == nullptr) {
      static_cast<void>(cudaGetLastError());
      std::size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
      fail<out_of_memory>("out of memory: GPU ", ordinal_, " could not provide ", bytes, " bytes; ",
                          free, " of ", total, " are free");
    }
    usage_->add(bytes);
    std::shared_ptr<void> owner(data, [usage = usage_, bytes, ordinal = ordinal_,
                                       memory = std::move(memory)](void*) mutable {
      static_cast<void>(cudaSetDevice(ordinal));
      memory.reset();
      usage->live -= bytes;
    });
    return {std::move(owner), static_cast<T*>(data), count};
  }

  template <class T>
  buffer<T> zeroed(buffer<T> memory) const {
    device_scope const scope(ordinal_);
    check(cudaMemset(memory.data(), 0, memory.size() * sizeof(T)), "cudaMemset");
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
    return memory;
  }

  void transfer(void* to, void const* from, std::size_t to_count, std::size_t from_count,
                std::size_t width) const {
    require(to_count == from_count, "a copy of ", from_count, " elements does not fit ", to_count);
    if (to_count == 0) return;
    device_scope const scope(ordinal_);
    check(cudaMemcpy(to, from, to_count * width, cudaMemcpyDefault), "cudaMemcpy");
    check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");  // the copy may be asynchronous
  }

  stream_options compute_;
  int ordinal_;
  cudaDeviceProp properties_{};
  std::shared_ptr<nvml_device> nvml_;
  std::shared_ptr<pinned_pool> pinned_;
  std::shared_ptr<memory_source> exchanged_ = std::make_shared<memory_source>();
  std::shared_ptr<memory_usage> usage_ = std::make_shared<memory_usage>();
};

}  // namespace parallel::cuda
