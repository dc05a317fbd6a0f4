// The layers of the exact ring model in addition to the library's own. Over integers modulo 2^64
// every sum is exact in any order.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <parallel/device/meta/memory_access.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

#include "support/ring/ring_attention.hpp"
#include "support/ring/ring_items.hpp"

namespace test {

/// y = x ∘ x.
struct ring_square {
  using element = ring;
  static constexpr bool takes_divided_sequences = true;
  struct saved {
    matrix_view<ring const> x;
  };
  template <class Stream>
  matrix_view<ring> forward(context<Stream>& c, matrix_view<ring const> x, saved& state) const {
    state.x = x;
    auto y = c.template allocate<ring, 2>(x.extents());
    for_each_item(c.stream, x.size(), items::square{y.data(), x.data()});
    return y;
  }
  template <class Stream>
  matrix_view<ring> backward_input(context<Stream>& c, matrix_view<ring const> dy,
                                   saved& state) const {
    auto dx = c.template allocate<ring, 2>(dy.extents());
    for_each_item(c.stream, dx.size(),
                  items::square_backward{dx.data(), state.x.data(), dy.data()});
    return dx;
  }
  template <class Stream>
  void backward_weight(context<Stream>&, saved const&) const {}
  void visit_parameters(auto&&) {}
};

/// Tells the meta device, on which no item runs, that items add to `gradient`.
template <class Stream, class View>
void note_update(Stream& s, View gradient) {
  if constexpr (requires { s.touch(); }) s.touch(parallel::meta::updates(gradient));
}

/// Stands in for a norm: y = x ∘ (gain + Σ of the row). It mixes the elements of a row only.
struct ring_norm {
  using element = ring;
  static constexpr bool takes_divided_sequences = true;

  parallel::parameter<ring, 1> gain;  // [width]

  struct saved {
    matrix_view<ring const> x, dy;
  };

  template <class Stream>
  matrix_view<ring> forward(context<Stream>& c, matrix_view<ring const> x, saved& state) const {
    state.x = x;
    auto y = c.template allocate<ring, 2>(x.extents());
    for_each_item(c.stream, x.extent(0),
                  items::norm{y.data(), x.data(), gain.value().data(), x.extent(1)});
    return y;
  }
  template <class Stream>
  matrix_view<ring> backward_input(context<Stream>& c, matrix_view<ring const> dy,
                                   saved& state) const {
    state.dy = dy;
    auto dx = c.template allocate<ring, 2>(dy.extents());
    for_each_item(c.stream, dx.extent(0),
                  items::norm_backward{dx.data(), state.x.data(), dy.data(), gain.value().data(),
                                       dx.extent(1)});
    return dx;
  }
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    if (!gain.has_gradient()) return;
    note_update(c.stream, gain.gradient());
    auto const& x = state.x;
    for_each_item(c.stream, x.extent(1),
                  items::gain_gradient{gain.gradient().data(), x.data(), state.dy.data(),
                                       x.extent(0), x.extent(1), x.extent(1)});
  }
  void visit_parameters(auto&& visit) { visit(gain); }
};

/// Multiplies the columns of every head by one gain, a parameter that all heads share.
struct ring_gain {
  using element = ring;
  static constexpr bool takes_divided_sequences = true;

  parallel::parameter<ring, 1> gain;  // [dim of a head]

  struct saved {
    matrix_view<ring const> x, dy;
  };

  template <class Stream>
  matrix_view<ring> forward(context<Stream>& c, matrix_view<ring const> x, saved& state) const {
    state.x = x;
    return multiply(c, x);
  }
  template <class Stream>
  matrix_view<ring> backward_input(context<Stream>& c, matrix_view<ring const> dy,
                                   saved& state) const {
    state.dy = dy;
    return multiply(c, dy);
  }
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    if (!gain.has_gradient()) return;
    note_update(c.stream, gain.gradient());
    auto const& x = state.x;
    auto const gradient = gain.gradient();
    for_each_item(c.stream, gradient.size(),
                  items::gain_gradient{gradient.data(), x.data(), state.dy.data(), x.extent(0),
                                       x.extent(1), gradient.size()});
  }
  void visit_parameters(auto&& visit) { visit(gain); }

 private:
  template <class Stream>
  matrix_view<ring> multiply(context<Stream>& c, matrix_view<ring const> x) const {
    auto y = c.template allocate<ring, 2>(x.extents());
    for_each_item(
        c.stream, x.size(),
        items::gain{y.data(), x.data(), gain.value().data(), x.extent(1), gain.value().size()});
    return y;
  }
};

/// Packed rows: the results of one or more linear layers side by side.
struct ring_projection {
  using element = ring;
  static constexpr bool takes_divided_sequences = true;
  using linear = parallel::linear<ring>;

  std::vector<linear> parts;

  struct saved {
    std::vector<linear::saved> parts;
  };

  template <class Stream>
  matrix_view<ring> forward(context<Stream>& c, matrix_view<ring const> x, saved& state) const {
    state.parts.resize(parts.size());
    if (parts.size() == 1) return parts[0].forward(c, x, state.parts[0]);
    auto const packed = c.template allocate<ring, 2>({x.extent(0), width()});
    for_each_part(packed, [&](std::size_t i, rows_view<ring> columns) {
      parallel::arena::scope const temporaries(c.memory);
      auto const y = parts[i].forward(c, x, state.parts[i]);
      parallel::ops::copy(c.stream, columns, rows_view<ring const>(y));
    });
    return packed;
  }
  template <class Stream>
  matrix_view<ring> backward_input(context<Stream>& c, matrix_view<ring const> dy,
                                   saved& state) const {
    if (parts.size() == 1) return parts[0].backward_input(c, dy, state.parts[0]);
    auto const dx = c.template allocate<ring, 2>({dy.extent(0), parts[0].weight.extents[1]});
    parallel::ops::fill(c.stream, dx.span(), 0);
    for_each_part(dy, [&](std::size_t i, rows_view<ring const> columns) {
      // this copy stays allocated for the weight gradients
      auto const part = c.template allocate<ring, 2>({columns.rows, columns.columns});
      parallel::ops::copy(c.stream, rows_view<ring>(part), columns);
      auto const part_gradient = parts[i].backward_input(c, part, state.parts[i]);
      parallel::ops::add(c.stream, dx.span(), std::span<ring const>(part_gradient.span()));
    });
    return dx;
  }
  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].backward_weight(c, state.parts[i]);
  }
  void visit_parameters(auto&& visit) {
    for (auto& part : parts) part.visit_parameters(visit);
  }

 private:
  [[nodiscard]] index width() const {
    index sum = 0;
    for (auto const& part : parts) sum += part.weight.extents[0];
    return sum;
  }
  /// Calls f(i, columns of part i of the rows).
  template <class T, class F>
  void for_each_part(matrix_view<T> rows, F&& f) const {
    index begin = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      index const end = begin + parts[i].weight.extents[0];
      f(i, rows_view<T>(rows).slice_columns(begin, end));
      begin = end;
    }
  }
};

}  // namespace test
