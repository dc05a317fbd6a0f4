// The launchers of attention on cuda::stream. For nvcc.
#pragma once

#include <parallel/device/cuda/launch.cuh>
#include <parallel/ops/cuda/attention.hpp>
#include <parallel/ops/cuda/attention_passes.hpp>
#include <parallel/ops/cuda/attention_path.hpp>
#include <parallel/ops/cuda/fused_attention.hpp>

namespace parallel::cuda {

namespace detail {
/// What attention_passes.hpp launches with.
struct attention_launcher {
  stream& s;

  template <class Body>
  void operator()(char const* operation, std::size_t blocks, Body const& body,
                  std::size_t bytes) const {
    launch<kernels::tile_threads>(s, operation, blocks, body, bytes);
  }
  [[nodiscard]] std::size_t shared_limit() const { return detail::shared_limit(s); }
};
}  // namespace detail

template <class T>
void attention_impl(stream& s, ops::heads_view<T> out, tensor_view<accumulate_t<T>, 3> lse,
                    ops::heads_view<T const> q, ops::heads_view<T const> k,
                    ops::heads_view<T const> v, ops::attention_options options) {
  options.alibi_slopes = s.constants(options.alibi_slopes);
  if constexpr (std::is_same_v<T, bf16>) {
    auto& kernels = s.library<attention_kernels>();
    if (attention_forward_path(kernels.backend(), out, lse.data(), q, k, v, options).fused &&
        s.run("attention",
              [&] { return kernels.fused->forward(s, out, lse.data(), q, k, v, options); }))
      return;
  }
  detail::attention_pass<T>(detail::attention_launcher{s}, "attention", out, lse.data(), q, k, v,
                            options, false);
}

template <class T>
void attention_backward_impl(stream& s, ops::heads_view<T> dq, ops::heads_view<T> dk,
                             ops::heads_view<T> dv, ops::heads_view<T const> dout,
                             ops::heads_view<T const> q, ops::heads_view<T const> k,
                             ops::heads_view<T const> v, ops::heads_view<T const> out,
                             tensor_view<accumulate_t<T> const, 3> lse,
                             ops::attention_options options) {
  options.alibi_slopes = s.constants(options.alibi_slopes);
  if constexpr (std::is_same_v<T, bf16>) {
    auto& kernels = s.library<attention_kernels>();
    if (attention_backward_path(kernels.backend(), dq, dk, dv, dout, q, k, v, out, lse.data(),
                                options)
            .fused &&
        s.run("attention_backward", [&] {
          return kernels.fused->backward(s, dq, dk, dv, dout, q, k, v, out, lse.data(), options);
        }))
      return;
  }
  detail::attention_backward_pass<T>(detail::attention_launcher{s}, "attention_backward",
                                     s.scratch(detail::attention_backward_scratch<T>(q)), dq, dk,
                                     dv, dout, q, k, v, out, lse.data(), options, false);
}

template <class T>
void extend_attention_impl(stream& s, ops::heads_view<accumulate_t<T>> out,
                           tensor_view<accumulate_t<T>, 3> lse, ops::heads_view<T const> q,
                           ops::heads_view<T const> k, ops::heads_view<T const> v,
                           ops::attention_options options) {
  options.alibi_slopes = s.constants(options.alibi_slopes);
  detail::attention_pass<T>(detail::attention_launcher{s}, "extend_attention", out, lse.data(), q,
                            k, v, options, true);
}

template <class T>
void extend_attention_backward_impl(
    stream& s, ops::heads_view<accumulate_t<T>> dq, ops::heads_view<accumulate_t<T>> dk,
    ops::heads_view<accumulate_t<T>> dv, ops::heads_view<T const> dout, ops::heads_view<T const> q,
    ops::heads_view<T const> k, ops::heads_view<T const> v, ops::heads_view<T const> out,
    tensor_view<accumulate_t<T> const, 3> lse, ops::attention_options options) {
  options.alibi_slopes = s.constants(options.alibi_slopes);
  detail::attention_backward_pass<T>(detail::attention_launcher{s}, "extend_attention_backward",
                                     s.scratch(detail::attention_backward_scratch<T>(q)), dq, dk,
                                     dv, dout, q, k, v, out, lse.data(), options, true);
}

}  // namespace parallel::cuda
