// cuda::data_mover: exchanges in the memory of a GPU, or between it and the host's.
//
// Copies and combinations are enqueued on a CUDA stream of its own. Reading another rank's memory
// is reading the same GPU's: several ranks, threads of one process, may share one, which NCCL
// refuses.
#pragma once

#include <cuda_runtime_api.h>

#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/detail/visit.hpp>
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
  explicit data_mover(stream_options on) : stream_(on) {}

  void copy(void* to, void const* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_.get()), "cudaMemcpyAsync");
  }

  /// Numbers in the host's memory are combined by the host.
  void combine(dtype type, reduction how, std::span<void* const> outs,
               std::span<void const* const> sources, std::size_t count) override {
    if (!is_of_device(outs.front()))
      return parallel::detail::combine(type, how, outs, sources, count);
    parallel::detail::visit(type, [&]<class T>(std::type_identity<T>) {
      combine_on<T>(stream_, how, outs, sources, count);
    });
  }

  void finish() override { stream_.synchronize(); }

  [[nodiscard]] cuda::stream& stream() { return stream_; }

 private:
  static bool is_of_device(void const* memory) {
    cudaPointerAttributes about{};
    check(cudaPointerGetAttributes(&about, memory), "cudaPointerGetAttributes");
    return about.type == cudaMemoryTypeDevice || about.type == cudaMemoryTypeManaged;
  }

  cuda::stream stream_;
};

}  // namespace parallel::cuda
