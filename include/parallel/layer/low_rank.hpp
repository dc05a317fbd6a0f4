// low_rank: the term that an adapter adds to a linear layer y = x Wᵀ whose weight W is frozen:
//   s B A dropout(x),  A [rank, in], B [out, rank]
// (LoRA; Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021). B is zero at
// first, so the layer begins unchanged.
//
// Along the tensor axis the adapter follows its layer without its own exchange. Where W is
// sliced by outputs, B is sliced too, A is whole and its gradients are addends; where W is sliced
// by inputs, A is sliced too, B is whole, and the adapter's term is an addend of the layer's
// result.
#pragma once

#include <cstdint>
#include <type_traits>

#include <parallel/layer/dropout.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace parallel {

/// Takes all rows of its input (inside a tensor region: those of all its ranks). Per row it keeps
/// twice the rank numbers, and views of x and dy. Cost for M rows: 2·M·rank·(in + out) operations
/// forward, twice that backward, and three passes over x with dropout.
template <class T>
struct low_rank {
  parameter<T, 2> a;  ///< "lora_A.weight": [rank, in], or absent
  parameter<T, 2> b;  ///< "lora_B.weight": [out, rank], or absent
  double scale = 1;   ///< s
  float dropout = 0;
  std::uint32_t operation =
      0;  ///< dropout's random numbers: stream_id of a name unique in the model

  struct saved {
    matrix_view<T const> x, dy;
    matrix_view<T> hidden;    ///< s A dropout(x), [rows, rank]
    matrix_view<T> d_hidden;  ///< gradient of A dropout(x): s dy B
  };

  [[nodiscard]] bool is_present() const { return a.is_present(); }

  /// Allocates state.hidden for `rows` rows. The arena releases in reverse order and the backward
  /// pass needs it, so call this before allocating memory that is released earlier.
  template <class Stream>
  void allocate_hidden(context<Stream>& c, index rows, saved& state) const {
    if (is_present()) state.hidden = c.template allocate<T, 2>({rows, a.extents[0]});
  }

  /// The adapter's term for x plus `summand`; `summand` alone if there is no adapter.
  template <class Stream>
  [[nodiscard]] matrix_view<T const> forward(context<Stream>& c, matrix_view<T const> x,
                                             saved& state, matrix_view<T const> summand) const {
    if (!is_present()) return summand;
    state.x = x;
    auto const out = c.template allocate<T, 2>({x.extent(0), b.extents[0]});
    {
      arena::scope const temporaries(c.memory);
      ops::matmul(c.stream, state.hidden, with_dropout(c, x), a.value(), {.transpose_b = true});
    }
    rescale(c, state.hidden);
    ops::matmul(c.stream, out, state.hidden, b.value(), {.transpose_b = true}, summand);
    return out;
  }

  /// The adapter's part of the gradient of x plus `summand`; `summand` alone without an adapter.
  template <class Stream>
  [[nodiscard]] matrix_view<T const> backward_input(context<Stream>& c, matrix_view<T const> dy,
                                                    saved& state,
                                                    matrix_view<T const> summand) const {
    if (!is_present()) return summand;
    state.dy = dy;
    ops::matmul(c.stream, state.d_hidden, dy, b.value());
    rescale(c, state.d_hidden);
    auto const dx = c.template allocate<T, 2>({dy.extent(0), a.extents[1]});
    if (!active(c)) {
      ops::matmul(c.stream, dx, state.d_hidden, a.value(), {}, summand);
      return dx;
    }
    ops::matmul(c.stream, dx, state.d_hidden, a.value());
    apply_dropout(c, dx, dx);
    if (summand.size() > 0) ops::add(c.stream, dx.span(), summand.span());
    return dx;
  }
  /// As allocate_hidden, for the backward pass.
  template <class Stream>
  void allocate_hidden_gradient(context<Stream>& c, index rows, saved& state) const {
    if (is_present()) state.d_hidden = c.template allocate<T, 2>({rows, a.extents[0]});
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    if (!is_present()) return;
    auto const options = [&](auto const& factor) {
      return ops::matmul_options{.transpose_a = true, .accumulate = !c.overwrites(factor)};
    };
    if (b.has_gradient()) ops::matmul(c.stream, b.gradient(), state.dy, state.hidden, options(b));
    if (!a.has_gradient()) return;
    arena::scope const temporaries(c.memory);
    ops::matmul(c.stream, a.gradient(), state.d_hidden, with_dropout(c, state.x), options(a));
  }

  /// Visits both factors, and marks them: backward_weight can overwrite their gradients.
  void visit_parameters(auto&& visit) {
    if (!is_present()) return;
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
  [[nodiscard]] matrix_view<T const> with_dropout(context<Stream>& c,
                                                  matrix_view<T const> x) const {
    if (!active(c)) return x;
    auto const out = c.template allocate<T, 2>(x.extents());
    apply_dropout(c, out, x);
    return out;
  }

  /// Elements are indexed in whole rows, of which this rank has the columns of its slice of A.
  template <class Stream>
  void apply_dropout(context<Stream>& c, matrix_view<T> y, matrix_view<T const> x) const {
    if constexpr (std::is_floating_point_v<accumulate_t<T>>) {
      auto region_context = c.for_all_rows();
      drop_rows(region_context, y, x, dropout, operation,
                {.first = a.first_column, .whole = a.tensor_extents()[1]});
    }
  }

  template <class Stream>
  void rescale(context<Stream>& c, matrix_view<T> y) const {
    if (scale != 1) ops::scale(c.stream, y.span(), static_cast<accumulate_t<T>>(scale));
  }
};

}  // namespace parallel
