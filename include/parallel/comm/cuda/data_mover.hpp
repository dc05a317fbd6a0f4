// cuda::data_mover: exchanges in the memory of GPUs, or between it and the host's.
//
// Copies and combinations are enqueued on a CUDA stream of its own. Ranks are threads of one
// process: reading another's memory is reading the same GPU's, which several ranks may share (NCCL
// refuses that), or another GPU's. Kernels reach that where the GPUs can access each other (peer
// access, which is enabled when it is first needed); elsewhere what they combine is copied in
// pieces through scratch memory, which CUDA can between any two GPUs; that memory is taken at the
// beginning, where the process sees a GPU that is out of reach. Ranks that are processes exchange
// through pinned memory of the host (comm/detail/through_host.hpp), which is kept.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/detail/visit.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/core/error.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/device/data_mover.hpp>

namespace parallel::cuda {

/// Enqueues out[i] = source0[i] op source1[i] op ... in the order of sources, for every out, as
/// detail::combine does on the host: the same bits. Defined in combine.cuh.
template <class T>
void combine_on(stream& s, reduction how, std::span<void* const> outs,
                std::span<void const* const> sources, std::size_t count);

class data_mover final : public parallel::data_mover {
 public:
  explicit data_mover(stream_options on) : stream_(on) {
    if (!reaches_every_gpu()) stream_.reserve_scratch(staging_bytes);
  }

  void copy(void* to, void const* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()), "cudaMemcpyAsync");
  }

  /// Numbers in the host's memory are combined by the host.
  void combine(dtype type, reduction how, std::span<void* const> outs,
               std::span<void const* const> sources, std::size_t count) override {
    if (!is_of_device(about(outs.front())))
      return parallel::detail::combine(type, how, outs, sources, count);
    auto const near = [this](void const* memory) { return reaches(memory); };
    if (std::ranges::all_of(outs, near) && std::ranges::all_of(sources, near))
      return enqueue(type, how, outs, sources, count);
    combine_in_pieces(type, how, outs, sources, count);
  }

  /// Pinned, so that copies go on beside the host's work.
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
  static constexpr std::size_t staging_bytes = std::size_t{2} << 20;  // of all ranks' pieces

  void enqueue(dtype type, reduction how, std::span<void* const> outs,
               std::span<void const* const> sources, std::size_t count) {
    parallel::detail::visit(type, [&]<class T>(std::type_identity<T>) {
      combine_on<T>(stream_, how, outs, sources, count);
    });
  }

  void combine_in_pieces(dtype type, reduction how, std::span<void* const> outs,
                         std::span<void const* const> sources, std::size_t count) {
    std::size_t const from_width = size_of(type), to_width = size_of(result_type(type, how));
    std::size_t const width = std::max(from_width, to_width);
    std::size_t const stride = staging_bytes / (sources.size() + 1) / 256 * 256;
    std::size_t const most = stride / width;
    std::byte* const own = stream_.scratch(staging_bytes);
    for (std::size_t first = 0; first < count; first += most) {
      std::size_t const n = std::min(most, count - first);
      std::vector<void const*> from;
      std::vector<void*> to, far;
      for (void const* const source : sources) {
        auto const* here = static_cast<std::byte const*>(source) + first * from_width;
        if (!reaches(source)) {
          std::byte* const place = own + from.size() * stride;
          copy(place, here, n * from_width);
          here = place;
        }
        from.push_back(here);
      }
      for (void* const out : outs)
        (reaches(out) ? to : far).push_back(static_cast<std::byte*>(out) + first * to_width);
      if (!far.empty()) to.push_back(own + sources.size() * stride);
      enqueue(type, how, to, from, n);
      for (void* const out : far) copy(out, to.back(), n * to_width);
    }
  }

  [[nodiscard]] static cudaPointerAttributes about(void const* memory) {
    cudaPointerAttributes out{};
    check(cudaPointerGetAttributes(&out, memory), "cudaPointerGetAttributes");
    return out;
  }
  [[nodiscard]] static bool is_of_device(cudaPointerAttributes const& memory) {
    return memory.type == cudaMemoryTypeDevice || memory.type == cudaMemoryTypeManaged;
  }

  /// Whether kernels of this GPU reach the memory; gives them access where that can be had.
  [[nodiscard]] bool reaches(void const* memory) {
    auto const of = about(memory);
    if (of.type != cudaMemoryTypeDevice || of.device == stream_.device()) return true;
    auto const [known, is_new] = peers_.try_emplace(of.device, false);
    if (is_new) known->second = enable_access(of.device);
    return known->second;
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
      static_cast<void>(cudaGetLastError());  // by another stream of the process
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
  std::map<int, bool> peers_;  // whether this GPU reaches their memory
};

}  // namespace parallel::cuda
