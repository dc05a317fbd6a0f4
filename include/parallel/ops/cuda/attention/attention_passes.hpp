// The kernels of attention and its gradient, independent of what launches them: a CUDA stream
// (attention.cuh) or, in tests, the host.
//
// `launch(operation, blocks, body, shared_bytes)` runs blocks of 256 threads, one body after the
// other; launch.shared_limit() is the largest amount of shared memory that a block may request.
#pragma once

#include <type_traits>

#include <parallel/ops/cuda/kernels/attention.hpp>
#include <parallel/ops/cuda/kernels/attention/attention_backward.hpp>

namespace parallel::cuda::detail {

inline constexpr index attention_head_dim_limit = 256;

/// Calls f(integral_constant) with the width of the tiles that hold `head_dim` elements. Throws
/// `error` above 256, the widest that shared memory holds.
template <class F>
void with_attention_width(char const* operation, index head_dim, F const& f) {
  require(head_dim <= attention_head_dim_limit, "ops::", operation, " on CUDA: head_dim is ",
          head_dim, ", but must be at most ", attention_head_dim_limit);
  if (head_dim <= 64) return f(std::integral_constant<unsigned, 64>{});
  if (head_dim <= 128) return f(std::integral_constant<unsigned, 128>{});
  f(std::integral_constant<unsigned, 256>{});
}

/// The shared memory that a block may request on every device from A100 on; most allow more.
inline constexpr std::size_t min_shared_limit = std::size_t{99} * 1024;

/// Launches make(integral_constant), a body for tiles with that number of rows per thread: Rows,
/// halved until a block's shared memory fits the device. Throws `error` when the smallest does not
/// fit: in double with head_dim above 128.
template <unsigned Rows, class Launch, class Make>
void launch_largest_tiles(Launch const& launch, char const* operation, Make const& make) {
  auto const body = make(std::integral_constant<unsigned, Rows>{});
  constexpr std::size_t bytes = decltype(body)::shared_bytes;
  if (bytes <= min_shared_limit || bytes <= launch.shared_limit())
    return launch(operation, body.blocks(), body, bytes);
  // a body that fits every device needs no smaller kernel
  if constexpr (Rows > 1 && bytes > min_shared_limit)
    launch_largest_tiles<Rows / 2>(launch, operation, make);
  else
    fail("ops::", operation, " on CUDA: heads this wide in this type need ", bytes,
         " bytes of shared memory a block, but this GPU allows ", launch.shared_limit());
}

/// O is T, or accumulate_t<T> if `extends` is set. Blocks have 16 queries if there are no more, as
/// in decoding.
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

/// `scratch` has attention_row_bytes(q) bytes (scratch.hpp).
template <class T, bool Extends, class Launch>
void attention_backward_pass(Launch const& launch, std::byte* scratch,
                             ops::basic_attention_backward_arguments<T, Extends> const& a) {
  using A = accumulate_t<T>;
  using O = ops::detail::attention_result_t<T, Extends>;
  auto const terms = kernels::terms_of<A>(a.options, a.q, a.k);
  auto* const row_dots = reinterpret_cast<A*>(scratch);
  with_attention_width(a.name, a.q.head_dim, [&](auto width) {
    launch(a.name, kernels::blocks_for_rows_of_heads(a.q, kernels::tile_threads),
           kernels::attention_row_dots<T>{row_dots, a.dout, a.out}, 0);
    constexpr unsigned max_rows = kernels::tile_rows<A, width()>;
    launch_largest_tiles<max_rows>(launch, a.name, [&](auto rows) {
      return kernels::attention_query_gradient<T, O, width(), rows()>{
          a.dq, {a.dout, a.q, a.k, a.v, a.lse.data(), row_dots, terms, Extends}};
    });
    launch_largest_tiles<max_rows>(launch, a.name, [&](auto rows) {
      return kernels::attention_key_gradient<T, O, width(), rows()>{
          a.dk, a.dv, {a.dout, a.q, a.k, a.v, a.lse.data(), row_dots, terms, Extends}};
    });
  });
}

}  // namespace parallel::cuda::detail
