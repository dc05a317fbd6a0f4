// The body of the kernel that combines the ranks' values, in the order of ranks or by a tree.
//
// The arithmetic is that of detail/combine.hpp, one element a thread: the bits do not depend on
// where the memory is. Cost: sources and outs are read and written once.
#pragma once

#include <bit>
#include <cstddef>

#include <parallel/comm/detail/combine.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/device/cuda/block.hpp>

namespace parallel::cuda::kernels {

/// The largest number of ranks that share a GPU.
inline constexpr int max_ranks = 128;

/// The pointers to the ranks' memory are passed as the kernel's argument, which may have 32 764
/// bytes (CUDA C++ Programming Guide, "__global__ function parameters"): MostSources is the largest
/// number of ranks that share a GPU, or of ranks of an NCCL communicator.
template <class T, int MostSources = max_ranks>
struct combine {
  static constexpr int max_levels = std::bit_width(static_cast<unsigned>(MostSources));

  void* outs[max_ranks];  ///< elements T, or accumulate_t<T> for a wide_sum
  T const* sources[MostSources];
  int num_outs;
  int num_sources;
  reduction op;
  std::size_t count;

  template <class Block>
  PARALLELLM_DEVICE void operator()(Block& b) const {
    for_each_in_grid(b, count, [this](std::size_t i) {
      wide const value = op == reduction::tree_sum ? tree(i) : fold(i);
      for (int o = 0; o < num_outs; ++o)
        if (op == reduction::wide_sum)
          static_cast<wide*>(outs[o])[i] = value;
        else
          static_cast<T*>(outs[o])[i] = static_cast<T>(value);
    });
  }

 private:
  using wide = accumulate_t<T>;

  [[nodiscard]] PARALLELLM_DEVICE wide fold(std::size_t i) const {
    using namespace parallel::detail;
    auto value = static_cast<wide>(sources[0][i]);
    for (int s = 1; s < num_sources; ++s) {
      auto const x = static_cast<wide>(sources[s][i]);
      value = op == reduction::max   ? take_max{}(value, x)
              : op == reduction::min ? take_min{}(value, x)
                                     : add{}(value, x);
    }
    return value;
  }

  /// The aligned binary tree over all sources, rounded at every node, as in tree_accumulator.
  [[nodiscard]] PARALLELLM_DEVICE wide tree(std::size_t i) const {
    wide levels[max_levels];
    for (int s = 0; s < num_sources; ++s) {
      auto value = static_cast<wide>(sources[s][i]);
      int level = 0;
      for (; (s >> level & 1) != 0; ++level)
        value = rounded(parallel::detail::add{}(levels[level], value));
      levels[level] = value;
    }
    int level = 0;
    while ((num_sources >> level & 1) == 0) ++level;
    wide value = levels[level];
    for (++level; level < max_levels; ++level)
      if ((num_sources >> level & 1) != 0)
        value = rounded(parallel::detail::add{}(levels[level], value));
    return value;
  }
  [[nodiscard]] PARALLELLM_DEVICE static wide rounded(wide x) {
    return static_cast<wide>(static_cast<T>(x));
  }
};

}  // namespace parallel::cuda::kernels
