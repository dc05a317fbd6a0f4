// The projection to packed rows [Q | K | V], by one matrix ("Wqkv") or by three ("Wq", "Wk", "Wv"),
// followed by optional clipping.
#pragma once

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include <parallel/layer/linear.hpp>
#include <parallel/ops/pointwise/clip.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel {

/// `In` is a linear layer: a plain one on one rank, or column_linear on ranks that hold different
/// heads (tensor/linear.hpp). Keeps its input, its gradient, and with clipping one byte per
/// element. Three matrices cost one more copy of the packed rows than one matrix, in each
/// direction.
template <class T, class In = linear<T>>
struct qkv_projection {
  In first;                          ///< the results of all parts, side by side, are the packed row
  std::vector<linear<T>> remaining;  ///< Wk and Wv, where the first part is Wq
  accumulate_t<T> clip{};            ///< results are clamped to [-clip, clip]; 0: no clipping

  struct saved {
    typename In::saved first;
    std::vector<typename linear<T>::saved> remaining;
    vector_view<std::uint8_t> inside;  ///< 1 where clipping left the value unchanged
  };

  qkv_projection() = default;
  /// The first of `parts` becomes In{arguments..., part}.
  explicit qkv_projection(std::vector<linear<T>> parts, auto const&... arguments)
      : first{arguments..., std::move(parts.at(0))},
        remaining(std::make_move_iterator(parts.begin() + 1),
                  std::make_move_iterator(parts.end())) {}

  template <class Stream>
  [[nodiscard]] auto forward(context<Stream>& c, matrix_view<T const> x, saved& state) const {
    state.remaining.resize(remaining.size());
    auto const projected = project(c, x, state);
    matrix_view<T> const packed = local(projected);
    if (clip > accumulate_t<T>{}) {
      if (c.mode == pass::training)
        state.inside = c.template allocate<std::uint8_t, 1>({packed.size()});
      ops::clip(c.stream, packed.span(), state.inside.span(), clip);
    }
    return projected;
  }

  /// Overwrites d_packed where clipping stopped the gradient.
  template <class Stream, class Gradient = matrix_view<T>>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, Gradient gradient,
                                              saved& state) const {
    matrix_view<T> const d_packed = local(gradient);
    if (clip > accumulate_t<T>{})
      ops::clip_backward(c.stream, d_packed.span(),
                         std::span<std::uint8_t const>(state.inside.span()));
    if (remaining.empty()) return backward_input_of(first, c, gradient, state.first);
    auto const copy_columns = [&](index begin, index width) {
      auto const contiguous = c.template allocate<T, 2>({d_packed.extent(0), width});
      ops::copy(c.stream, ops::rows_view<T>(contiguous),
                ops::rows_view<T const>(d_packed).slice_columns(begin, begin + width));
      return contiguous;
    };
    matrix_view<T> other_gradient;
    index begin = width_of(first);
    for (std::size_t i = 0; i < remaining.size(); ++i) {
      index const width = width_of(remaining[i]);
      auto const dx = remaining[i].backward_input(c, copy_columns(begin, width), state.remaining[i],
                                                  other_gradient);
      other_gradient = dx;
      begin += width;
    }
    return backward_input_of(first, c, sliced_like(gradient, copy_columns(0, width_of(first))),
                             state.first, other_gradient);
  }

  /// As linear::restore_input.
  void restore_input(saved& state, matrix_view<T const> x) const {
    first.restore_input(state.first, x);
    for (std::size_t i = 0; i < remaining.size(); ++i)
      remaining[i].restore_input(state.remaining[i], state.first.x);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    first.backward_weight(c, state.first);
    for (std::size_t i = 0; i < remaining.size(); ++i)
      remaining[i].backward_weight(c, state.remaining[i]);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(first, visit);
    for (auto& part : remaining) visit_parameters_of(part, visit);
  }

 private:
  template <class Stream>
  [[nodiscard]] auto project(context<Stream>& c, matrix_view<T const> x, saved& state) const {
    using result = decltype(first.forward(c, x, state.first));
    if (remaining.empty()) return first.forward(c, x, state.first);
    first.save_input(c, x, state.first);
    matrix_view<T const> const input = state.first.x;
    auto const packed = c.template allocate<T, 2>({input.extent(0), width()});
    index begin = 0;
    auto const project = [&](auto const& part, matrix_view<T const> part_input, auto& part_state) {
      arena::scope const temporaries(c.memory);
      auto const y = c.template allocate<T, 2>({input.extent(0), width_of(part)});
      part.apply(c, y, part_input, part_state);
      ops::copy(c.stream, ops::rows_view<T>(packed).slice_columns(begin, begin + width_of(part)),
                ops::rows_view<T const>(y));
      begin += width_of(part);
    };
    project(first, x, state.first);
    for (std::size_t i = 0; i < remaining.size(); ++i) {
      remaining[i].save_input(c, input, state.remaining[i]);
      project(remaining[i], input, state.remaining[i]);
    }
    return sliced_like(result{}, packed);
  }

  [[nodiscard]] static index width_of(linear<T> const& part) { return part.weight.extents[0]; }
  template <class Wrapper>
  [[nodiscard]] static index width_of(Wrapper const& part) {
    return width_of(part.inner);
  }

  [[nodiscard]] index width() const {
    index total = width_of(first);
    for (auto const& part : remaining) total += width_of(part);
    return total;
  }
};

/// The projection of one rank.
template <class T>
qkv_projection(std::vector<linear<T>>) -> qkv_projection<T>;

}  // namespace parallel
