// low_rank: what an adapter adds to a linear layer y = x Wᵀ whose weight W stays as it is:
//   s B A dropout(x),  A [rank, in], B [out, rank]
// (LoRA; Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021). With B zero at
// first the layer begins as it was.
//
// Along the tensor axis it follows its layer without an exchange of its own. Where W is sliced by
// outputs, B is too, A is whole and its gradients are addends; where W is sliced by inputs, A is
// too, B is whole, and what it adds is an addend of the layer's result.
#pragma once

#include <cstdint>
#include <type_traits>

#include <parallel/layer/dropout.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/matmul.hpp>

namespace parallel {

/// Takes all rows of its input (in a region of the tensor axis: of all its ranks). Keeps, a row,
/// twice the rank numbers, and views of x and dy. Cost for M rows: 2·M·rank·(in + out) operations
/// forward, twice that backward, and with dropout three passes over x.
template <class T>
struct low_rank {
  parameter<T, 2> a;  // "lora_A.weight": [rank, in], or absent
  parameter<T, 2> b;  // "lora_B.weight": [out, rank], or absent
  double scale = 1;   // s
  float dropout = 0;
  std::uint32_t operation = 0;  // of the dropout: stream_id of a name unique in the model

  struct saved {
    matrix_view<T const> x, dy;
    matrix_view<T> hidden;    // s A dropout(x), [rows, rank]
    matrix_view<T> d_hidden;  // its gradient, times s
  };

  [[nodiscard]] bool present() const { return a.present(); }

  /// Takes the memory that is kept for `rows` rows, before any that is released earlier.
  template <class Stream>
  void keep(context<Stream>& c, index rows, saved& kept) const {
    if (present()) kept.hidden = c.template allocate<T, 2>({rows, a.extents[0]});
  }

  /// What is added to the layer's result for x, plus `onto`; `onto` where there is no adapter.
  template <class Stream>
  [[nodiscard]] matrix_view<T const> forward(context<Stream>& c, matrix_view<T const> x,
                                             saved& kept, matrix_view<T const> onto) const {
    if (!present()) return onto;
    kept.x = x;
    auto const out = c.template allocate<T, 2>({x.extent(0), b.extents[0]});
    {
      arena::scope const temporaries(c.memory);
      ops::matmul(c.stream, kept.hidden, dropped(c, x), a.value(), {.transpose_b = true});
    }
    rescale(c, kept.hidden);
    ops::matmul(c.stream, out, kept.hidden, b.value(), {.transpose_b = true}, onto);
    return out;
  }

  /// Likewise of the gradient of x.
  template <class Stream>
  [[nodiscard]] matrix_view<T const> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                                    saved& kept, matrix_view<T const> onto) const {
    if (!present()) return onto;
    kept.dy = dy;
    ops::matmul(c.stream, kept.d_hidden, dy, b.value());
    rescale(c, kept.d_hidden);
    auto const dx = c.template allocate<T, 2>({dy.extent(0), a.extents[1]});
    if (!active(c)) {
      ops::matmul(c.stream, dx, kept.d_hidden, a.value(), {}, onto);
      return dx;
    }
    ops::matmul(c.stream, dx, kept.d_hidden, a.value());
    drop(c, dx, dx);
    if (onto.size() > 0) ops::add(c.stream, dx.span(), onto.span());
    return dx;
  }
  /// As keep, for the backward pass.
  template <class Stream>
  void keep_backward(context<Stream>& c, index rows, saved& kept) const {
    if (present()) kept.d_hidden = c.template allocate<T, 2>({rows, a.extents[0]});
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    if (!present()) return;
    ops::matmul_options const how{.transpose_a = true, .accumulate = !c.overwrite_gradients};
    if (b.has_gradient()) ops::matmul(c.stream, b.gradient(), kept.dy, kept.hidden, how);
    if (!a.has_gradient()) return;
    arena::scope const temporaries(c.memory);
    ops::matmul(c.stream, a.gradient(), kept.d_hidden, dropped(c, kept.x), how);
  }

  void visit_parameters(auto&& visit) {
    if (!present()) return;
    a.replaces_gradient = b.replaces_gradient = true;
    visit(a);
    visit(b);
  }

 private:
  template <class Stream>
  [[nodiscard]] bool active(context<Stream> const& c) const {
    return std::is_floating_point_v<accumulate_t<T>> && dropout > 0 && c.mode == pass::training;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<T const> dropped(context<Stream>& c, matrix_view<T const> x) const {
    if (!active(c)) return x;
    auto const out = c.template allocate<T, 2>(x.extents());
    drop(c, out, x);
    return out;
  }

  /// Elements are counted in whole rows, of which the columns of A are here.
  template <class Stream>
  void drop(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x) const {
    if constexpr (std::is_floating_point_v<accumulate_t<T>>) {
      auto inside = c.of_all_rows();
      drop_rows(inside, y, x, dropout, operation,
                {.first = a.first_column, .whole = a.tensor_extents()[1]});
    }
  }

  template <class Stream>
  void rescale(context<Stream>& c, matrix_view<T> y) const {
    if (scale != 1) ops::scale(c.stream, y.span(), static_cast<accumulate_t<T>>(scale));
  }
};

}  // namespace parallel
