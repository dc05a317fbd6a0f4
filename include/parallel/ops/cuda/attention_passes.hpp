// Which kernels make up attention and its gradient, whatever launches them: a CUDA stream
// (attention.cuh) or, in tests, the host.
//
// `launch(operation, blocks, body, shared_bytes)` runs blocks of 256 threads, one body after the
// other.
#pragma once

#include <type_traits>

#include <parallel/ops/cuda/kernels/attention.hpp>
#include <parallel/ops/cuda/kernels/attention_backward.hpp>

namespace parallel::cuda::detail {

inline constexpr index attention_head_dim_limit = 256;

/// Calls f(integral_constant) with the width of tiles that hold `head_dim` elements. Throws `error`
/// above 256, the widest that shared memory holds.
template <class F>
void with_attention_width(char const* operation, index head_dim, F const& f) {
  require(head_dim <= attention_head_dim_limit, "ops::", operation, " on CUDA: head_dim is ",
          head_dim, ", but must be at most ", attention_head_dim_limit);
  if (head_dim <= 64) return f(std::integral_constant<unsigned, 64>{});
  if (head_dim <= 128) return f(std::integral_constant<unsigned, 128>{});
  f(std::integral_constant<unsigned, 256>{});
}

/// O is T, or accumulate_t<T> where `extends`. Blocks of 16 queries where there are no more, as in
/// decoding.
template <class T, class O, class Launch>
void attention_pass(Launch const& launch, char const* operation, ops::heads_view<O> out,
                    accumulate_t<T>* lse, ops::heads_view<T const> q, ops::heads_view<T const> k,
                    ops::heads_view<T const> v, ops::attention_options const& options,
                    bool extends) {
  auto const terms = kernels::terms_of<accumulate_t<T>>(options, q, k);
  with_attention_width(operation, q.head_dim, [&](auto width) {
    auto const run = [&](auto const& body) {
      launch(operation, body.blocks(), body, body.shared_bytes);
    };
    if (q.sequence <= kernels::tile_side)
      run(kernels::attention_forward<T, O, width(), 1>{out, lse, q, k, v, terms, extends});
    else
      run(kernels::attention_forward<T, O, width()>{out, lse, q, k, v, terms, extends});
  });
}

/// Bytes of scratch that attention_backward_pass needs.
template <class T>
[[nodiscard]] std::size_t attention_backward_scratch(ops::heads_view<T const> const& q) {
  return sizeof(accumulate_t<T>) * static_cast<std::size_t>(q.batch * q.heads * q.sequence);
}

template <class T, class O, class Launch>
void attention_backward_pass(Launch const& launch, char const* operation, std::byte* scratch,
                             ops::heads_view<O> dq, ops::heads_view<O> dk, ops::heads_view<O> dv,
                             ops::heads_view<T const> dout, ops::heads_view<T const> q,
                             ops::heads_view<T const> k, ops::heads_view<T const> v,
                             ops::heads_view<T const> out, accumulate_t<T> const* lse,
                             ops::attention_options const& options, bool adds) {
  using A = accumulate_t<T>;
  auto const terms = kernels::terms_of<A>(options, q, k);
  auto* const own = reinterpret_cast<A*>(scratch);
  with_attention_width(operation, q.head_dim, [&](auto width) {
    constexpr std::size_t rows_of_block = kernels::tile_threads / warp_size;
    auto const rows = static_cast<std::size_t>(q.batch * q.heads * q.sequence);
    launch(operation, std::min<std::size_t>((rows + rows_of_block - 1) / rows_of_block, 65536),
           kernels::attention_own<T>{own, dout, out}, 0);
    kernels::attention_gradient_walk<T, width()> const walk{dout, q, k, v, lse, own, terms, adds};
    auto const run = [&](auto const& body) {
      launch(operation, body.blocks(), body, body.shared_bytes);
    };
    run(kernels::attention_query_gradient<T, O, width()>{dq, walk});
    run(kernels::attention_key_gradient<T, O, width()>{dk, dv, walk});
  });
}

}  // namespace parallel::cuda::detail
