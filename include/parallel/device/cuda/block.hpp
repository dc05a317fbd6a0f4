// block: the concept of a thread block and helpers for the bodies of CUDA kernels.
//
// A body is a struct of its arguments with `template <class Block> void operator()(Block&) const`,
// which every thread of every block runs. It uses the hardware only through its block: the number
// of the thread, barriers, shared memory, exchange inside a warp. With nvcc the block is a real one
// (launch.cuh). Tests pass a block that runs on the host, its threads one after another in any
// order (tests/support), so that index arithmetic and barriers are tested on machines without a
// GPU.
//
// The number of threads of a block is a multiple of 32, and all threads take part in every barrier
// and exchange.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <parallel/core/config.hpp>

namespace parallel::cuda {

/// The threads of a warp.
inline constexpr unsigned warp_size = 32;

/// What a kernel's body requires of its thread block.
template <class B>
concept thread_block = requires(B& b, B const& fixed, float value) {
  { fixed.thread() } -> std::same_as<unsigned>;   // number of the thread, below threads()
  { fixed.threads() } -> std::same_as<unsigned>;  // threads of a block
  { fixed.block() } -> std::same_as<unsigned>;    // number of the block, below blocks()
  { fixed.blocks() } -> std::same_as<unsigned>;
  b.sync();                                                // barrier of the block's threads
  { b.shuffle_xor(value, 1U) } -> std::same_as<float>;     // the value of lane (this lane ^ mask)
  { b.template shared<float>() } -> std::same_as<float*>;  // the block's memory, 16-byte aligned
};

/// Elements in 16 bytes, the largest access of one thread.
template <class T>
inline constexpr unsigned pack_size = 16 / sizeof(T);

/// 16 bytes of elements that are read or written by one access.
template <class T>
struct alignas(16) pack {
  T value[pack_size<T>];
};

/// Whether all pointers are aligned for packs.
template <class... T>
[[nodiscard]] PARALLELLM_HOST_DEVICE bool packable(T const*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

/// Reads 16 aligned bytes of elements.
template <class T>
[[nodiscard]] PARALLELLM_DEVICE pack<T> load_pack(T const* from) {
  return *reinterpret_cast<pack<T> const*>(from);
}
/// Writes 16 aligned bytes of elements.
template <class T>
PARALLELLM_DEVICE void store_pack(T* to, pack<T> const& values) {
  *reinterpret_cast<pack<T>*>(to) = values;
}

/// Calls f(i) for i in [0, count), distributed over all threads of the grid. Adjacent threads get
/// adjacent i.
template <class Block, class F>
PARALLELLM_DEVICE void for_each_in_grid(Block const& b, std::size_t count, F const& f) {
  std::size_t const stride = std::size_t{b.blocks()} * b.threads();
  for (std::size_t i = std::size_t{b.block()} * b.threads() + b.thread(); i < count; i += stride)
    f(i);
}

/// Calls f(i) for i in [0, count), distributed over the threads of the block.
template <class Block, class F>
PARALLELLM_DEVICE void for_each_in_block(Block const& b, std::size_t count, F const& f) {
  for (std::size_t i = b.thread(); i < count; i += b.threads()) f(i);
}

namespace detail {
template <unsigned Value>
struct constant {
  PARALLELLM_HOST_DEVICE constexpr operator unsigned() const { return Value; }  // NOLINT
};
template <class F, unsigned... Index>
PARALLELLM_DEVICE void unroll(F const& f, std::integer_sequence<unsigned, Index...>) {
  (f(constant<Index>{}), ...);
}
}  // namespace detail

/// Calls f(0), f(1), ... f(Count - 1), fully unrolled. Each argument has its own type, which
/// converts to the number at compile time, so arrays that f indexes with it are sure to stay in
/// registers.
template <unsigned Count, class F>
PARALLELLM_DEVICE void unroll(F const& f) {
  detail::unroll(f, std::make_integer_sequence<unsigned, Count>{});
}

/// The sum of two values, for reductions.
struct plus {
  template <class A>
  PARALLELLM_DEVICE A operator()(A a, A b) const {
    return a + b;
  }
};
/// The larger value; NaN if one of them is NaN.
struct larger {
  template <class A>
  PARALLELLM_DEVICE A operator()(A a, A b) const {
    return b > a || b != b ? b : a;
  }
};

/// The values of a warp's 32 lanes combined, the same bits in every lane.
template <class Block, class A, class Op>
[[nodiscard]] PARALLELLM_DEVICE A combine_warp(Block& b, A value, Op op) {
  for (unsigned mask = warp_size / 2; mask > 0; mask /= 2)
    value = op(value, b.shuffle_xor(value, mask));
  return value;
}

/// The values of all threads of the block combined in a fixed order, the same bits in every thread.
/// `scratch` is shared memory for one A per warp; it may be used again after the next barrier.
template <class Block, class A, class Op>
[[nodiscard]] PARALLELLM_DEVICE A combine_block(Block& b, A value, A* scratch, Op op) {
  value = combine_warp(b, value, op);
  unsigned const warps = b.threads() / warp_size;
  if (b.thread() % warp_size == 0) scratch[b.thread() / warp_size] = value;
  b.sync();
  A total = scratch[0];
  for (unsigned w = 1; w < warps; ++w) total = op(total, scratch[w]);
  return total;
}

}  // namespace parallel::cuda
