// Attention on cuda::stream. For nvcc.
//
// A vendor's fused kernels run it if the program is linked with them and they support the call
// (attention_path.hpp states when, fused_attention.hpp how); otherwise plain kernels do. Slopes are
// in host memory and are copied by stream::constants; beginnings of documents are device memory.
// head_dim is at most 256. Scratch of the plain kernels: one number per query and head in the
// backward pass, whose results have equal bits in every run; those of the fused one do on
// deterministic streams. Part by part (extend_attention), a fused kernel's result is rounded to
// bf16 before it is merged.
#pragma once

#include <parallel/ops/attention/extend_attention.hpp>
#include <parallel/ops/cuda/attention/attention_passes.hpp>
#include <parallel/ops/cuda/attention/attention_path.hpp>
#include <parallel/ops/cuda/attention/fused_attention.hpp>
#include <parallel/ops/cuda/kernels/attention/attention_parts.hpp>
#include <parallel/ops/cuda/kernels/attention/rows_of_heads.hpp>
#include <parallel/ops/cuda/run.cuh>
#include <parallel/ops/cuda/scratch.hpp>

namespace parallel::cuda {

namespace detail {
/// The launcher that attention_passes.hpp uses.
struct attention_launcher {
  stream& s;

  template <class Body>
  void operator()(char const* operation, std::size_t blocks, Body const& body,
                  std::size_t bytes) const {
    launch<kernels::tile_threads>(s, operation, blocks, body, bytes);
  }
  [[nodiscard]] std::size_t shared_limit() const { return detail::shared_limit(s); }
};

/// Enqueues a body that uses one warp for each row of `view`.
template <class T, class Body>
void launch_rows_of_heads(stream& s, char const* operation, ops::heads_view<T> const& view,
                          Body const& body) {
  attention_launcher{s}(operation, kernels::blocks_for_rows_of_heads(view, kernels::tile_threads),
                        body, 0);
}
}  // namespace detail

template <class T>
void enqueue(stream& s, ops::attention_arguments<T> a) {
  a.options.alibi_slopes = s.constants(a.options.alibi_slopes);
  if constexpr (std::is_same_v<T, bf16>) {
    auto& kernels = s.library<attention_kernels>();
    auto const path =
        attention_forward_path(kernels.backend(), a.out, a.lse.data(), a.q, a.k, a.v, a.options);
    if (kernels.try_fused(path, [&] {
          return s.run("attention", [&] {
            return kernels.fused->forward(s, a.out, a.lse.data(), a.q, a.k, a.v, a.options);
          });
        }))
      return;
  }
  detail::attention_pass<T>(detail::attention_launcher{s}, "attention", a.out, a.lse.data(), a.q,
                            a.k, a.v, a.options, false);
}

template <class T>
void enqueue(stream& s, ops::attention_backward_arguments<T> a) {
  a.options.alibi_slopes = s.constants(a.options.alibi_slopes);
  if constexpr (std::is_same_v<T, bf16>) {
    auto& kernels = s.library<attention_kernels>();
    auto const path = attention_backward_path(kernels.backend(), a);
    if (kernels.try_fused(
            path, [&] { return s.run(a.name, [&] { return kernels.fused->backward(s, a); }); }))
      return;
  }
  detail::attention_backward_pass(detail::attention_launcher{s},
                                  s.scratch(detail::attention_row_bytes<T>(a.q)), a);
}

template <class T>
void enqueue(stream& s, ops::extend_attention_arguments<T> a) {
  a.options.alibi_slopes = s.constants(a.options.alibi_slopes);
  if constexpr (std::is_same_v<T, bf16>) {
    auto& kernels = s.library<attention_kernels>();
    auto const path = extend_attention_path(kernels.backend(), a.q, a.k, a.v, a.options);
    if (kernels.try_fused(path, [&] {
          auto const part = s.run("extend_attention", [&] {
            return kernels.fused->forward_part(s, a.q, a.k, a.v, a.options);
          });
          if (part)
            detail::launch_rows_of_heads(
                s, "extend_attention", a.out,
                kernels::merge_attention_part<T>{a.out, a.lse.data(), part->out, part->lse});
          return part.has_value();
        }))
      return;
  }
  detail::attention_pass<T>(detail::attention_launcher{s}, "extend_attention", a.out, a.lse.data(),
                            a.q, a.k, a.v, a.options, true);
}

template <class T>
void enqueue(stream& s, ops::extend_attention_backward_arguments<T> a) {
  a.options.alibi_slopes = s.constants(a.options.alibi_slopes);
  if constexpr (std::is_same_v<T, bf16>) {
    auto& kernels = s.library<attention_kernels>();
    auto const path = extend_attention_backward_path(kernels.backend(), s.deterministic(), a);
    auto const add = [&](ops::heads_view<float> sum, ops::heads_view<bf16 const> addend) {
      detail::launch_rows_of_heads(s, a.name, sum, kernels::add_attention_part<T>{sum, addend});
    };
    if (kernels.try_fused(path, [&] {
          auto const part = s.run(a.name, [&] { return kernels.fused->backward_part(s, a); });
          if (!part) return false;
          add(a.dq, part->dq);
          add(a.dk, part->dk);
          add(a.dv, part->dv);
          return true;
        }))
      return;
  }
  detail::attention_backward_pass(detail::attention_launcher{s},
                                  s.scratch(detail::attention_row_bytes<T>(a.q)), a);
}

}  // namespace parallel::cuda
