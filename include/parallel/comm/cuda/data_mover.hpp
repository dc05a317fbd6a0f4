// cuda::data_mover: moves and combines data in the memory of GPUs, or between it and the host's.
//
// Copies and combinations are enqueued on its own CUDA stream. Ranks are threads of one
// process: the memory of another rank is on the same GPU, which several ranks may share (NCCL
// refuses that), or on another GPU. Kernels reach another GPU's memory if the GPUs can access each
// other (peer access, which is enabled when it is first needed). Otherwise the operands of a
// combination are copied in pieces to scratch memory, which CUDA supports between any two GPUs;
// that memory is reserved at the start if the process sees a GPU that is out of reach. Ranks that
// are processes exchange through pinned host memory (comm/detail/through_host.hpp), which is kept.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/core/error.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/device/data_mover.hpp>

namespace parallel::cuda {

/// Enqueues out[i] = source0[i] op source1[i] op ... in the order of sources, for every out, as
/// detail::combine does on the host: the same bits. Defined in combine.cuh.
template <class T>
void combine_on(stream& s, reduction op, std::span<void* const> outs,
                std::span<void const* const> sources, std::size_t count);

class data_mover final : public parallel::data_mover {
 public:
  explicit data_mover(stream_options options) : stream_(options) {
    if (!reaches_every_gpu()) stream_.reserve_scratch(staging_bytes);
  }

  void copy(void* to, void const* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()), "cudaMemcpyAsync");
  }

  /// The host combines numbers that are in its memory.
  void combine(dtype type, reduction op, std::span<void* const> outs,
               std::span<void const* const> sources, std::size_t count) override {
    if (!is_device_memory(attributes_of(outs.front())))
      return parallel::detail::combine(type, op, outs, sources, count);
    auto const is_reachable = [this](void const* memory) { return reaches(memory); };
    if (std::ranges::all_of(outs, is_reachable) && std::ranges::all_of(sources, is_reachable))
      return enqueue(type, op, outs, sources, count);
    combine_in_pieces(type, op, outs, sources, count);
  }

  /// Pinned, so that copies run concurrently with the host's work.
  [[nodiscard]] std::byte* staging(std::size_t bytes) override {
    if (pinned_ == nullptr) {
      device_scope const scope(stream_.device());
      void* memory = nullptr;
      check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable),
            "cudaHostAlloc of what exchanges are staged in");
      pinned_.reset(memory);
      pinned_bytes_ = bytes;
    }
    require(bytes <= pinned_bytes_, "exchanges are staged in ", pinned_bytes_, " bytes, not ",
            bytes);
    return static_cast<std::byte*>(pinned_.get());
  }

  void finish() override { stream_.synchronize(); }

  [[nodiscard]] cuda::stream& stream() { return stream_; }

 private:
  static constexpr std::size_t staging_bytes = std::size_t{2} << 20;  // for the pieces of all ranks

  void enqueue(dtype type, reduction op, std::span<void* const> outs,
               std::span<void const* const> sources, std::size_t count) {
    parallel::detail::visit(type, [&]<class T>(std::type_identity<T>) {
      combine_on<T>(stream_, op, outs, sources, count);
    });
  }

  void combine_in_pieces(dtype type, reduction op, std::span<void* const> outs,
                         std::span<void const* const> sources, std::size_t count) {
    std::size_t const source_width = size_of(type), out_width = size_of(result_type(type, op));
    std::size_t const width = std::max(source_width, out_width);
    std::size_t const stride = staging_bytes / (sources.size() + 1) / 256 * 256;
    std::size_t const max_count = stride / width;
    std::byte* const staging = stream_.scratch(staging_bytes);
    for (std::size_t first = 0; first < count; first += max_count) {
      std::size_t const n = std::min(max_count, count - first);
      std::vector<void const*> source_chunks;
      std::vector<void*> reachable_outs, unreachable;
      for (void const* const source : sources) {
        auto const* source_chunk = static_cast<std::byte const*>(source) + first * source_width;
        if (!reaches(source)) {
          std::byte* const slot = staging + source_chunks.size() * stride;
          copy(slot, source_chunk, n * source_width);
          source_chunk = slot;
        }
        source_chunks.push_back(source_chunk);
      }
      for (void* const out : outs)
        (reaches(out) ? reachable_outs : unreachable)
            .push_back(static_cast<std::byte*>(out) + first * out_width);
      if (!unreachable.empty()) reachable_outs.push_back(staging + sources.size() * stride);
      enqueue(type, op, reachable_outs, source_chunks, n);
      for (void* const out : unreachable) copy(out, reachable_outs.back(), n * out_width);
    }
  }

  [[nodiscard]] static cudaPointerAttributes attributes_of(void const* memory) {
    cudaPointerAttributes out{};
    check(cudaPointerGetAttributes(&out, memory), "cudaPointerGetAttributes");
    return out;
  }
  [[nodiscard]] static bool is_device_memory(cudaPointerAttributes const& memory) {
    return memory.type == cudaMemoryTypeDevice || memory.type == cudaMemoryTypeManaged;
  }

  /// Whether kernels of this GPU reach the memory; enables peer access if that is possible.
  [[nodiscard]] bool reaches(void const* memory) {
    auto const attributes = attributes_of(memory);
    if (attributes.type != cudaMemoryTypeDevice || attributes.device == stream_.device())
      return true;
    auto const [entry, is_new] = peers_.try_emplace(attributes.device, false);
    if (is_new) entry->second = enable_access(attributes.device);
    return entry->second;
  }
  [[nodiscard]] bool can_access(int peer) const {
    int possible = 0;
    check(cudaDeviceCanAccessPeer(&possible, stream_.device(), peer), "cudaDeviceCanAccessPeer");
    return possible != 0;
  }
  [[nodiscard]] bool reaches_every_gpu() const {
    int count = 0;
    check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    for (int gpu = 0; gpu < count; ++gpu)
      if (gpu != stream_.device() && !can_access(gpu)) return false;
    return true;
  }
  [[nodiscard]] bool enable_access(int peer) const {
    if (!can_access(peer)) return false;
    device_scope const scope(stream_.device());
    auto const status = cudaDeviceEnablePeerAccess(peer, 0);
    if (status == cudaErrorPeerAccessAlreadyEnabled)
      static_cast<void>(cudaGetLastError());  // another stream of the process did it
    else
      check(status, "cudaDeviceEnablePeerAccess");
    return true;
  }

  struct free_pinned {
    void operator()(void* memory) const { static_cast<void>(cudaFreeHost(memory)); }
  };

  std::unique_ptr<void, free_pinned> pinned_;  // freed after the stream has ended
  std::size_t pinned_bytes_ = 0;
  cuda::stream stream_;
  std::map<int, bool> peers_;  // GPU -> whether this GPU reaches its memory
};

}  // namespace parallel::cuda
