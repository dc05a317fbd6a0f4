// The projection to packed rows [Q | K | V]: one matrix ("Wqkv") or three ("Wq", "Wk", "Wv"), then
// optional clipping.
#pragma once

#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include <parallel/layer/linear.hpp>
#include <parallel/ops/clip.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel {

/// `In`: a linear layer too, of one rank or column_linear of ranks that hold other heads
/// (tensor/linear.hpp). Keeps its input, its gradient, and with clipping one byte per
/// element. Three matrices cost a copy of the packed rows more than one, each way.
template <class T, class In = linear<T>>
struct qkv_projection {
  In first;                       // results side by side are the packed row
  std::vector<linear<T>> others;  // of Wq: Wk and Wv
  accumulate_t<T> clip{};         // results are clamped to [-clip, clip]; 0: not

  struct saved {
    typename In::saved first;
    std::vector<typename linear<T>::saved> others;
    vector_view<std::uint8_t> inside;  // where clipping left the value alone
  };

  qkv_projection() = default;
  /// The first of `parts` becomes In{how..., part}.
  explicit qkv_projection(std::vector<linear<T>> parts, auto const&... how)
      : first{how..., std::move(parts.at(0))},
        others(std::make_move_iterator(parts.begin() + 1), std::make_move_iterator(parts.end())) {}

  template <class Stream>
  [[nodiscard]] auto forward(context<Stream>& c, matrix_view<T const> x, saved& kept) const {
    kept.others.resize(others.size());
    auto const made = project(c, x, kept);
    matrix_view<T> const packed = local(made);
    if (clip > accumulate_t<T>{}) {
      if (c.mode == pass::training)
        kept.inside = c.template allocate<std::uint8_t, 1>({packed.size()});
      ops::clip(c.stream, packed.span(), kept.inside.span(), clip);
    }
    return made;
  }

  /// Overwrites d_packed where clipping stopped the gradient.
  template <class Stream, class Gradient = matrix_view<T>>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, Gradient gradient,
                                              saved& kept) const {
    matrix_view<T> const d_packed = local(gradient);
    if (clip > accumulate_t<T>{})
      ops::clip_backward(c.stream, d_packed.span(),
                         std::span<std::uint8_t const>(kept.inside.span()));
    if (others.empty()) return backward_input_of(first, c, gradient, kept.first);
    auto const columns = [&](index begin, index width) {
      auto const own = c.template allocate<T, 2>({d_packed.extent(0), width});
      ops::copy(c.stream, ops::rows_view<T>(own),
                ops::rows_view<T const>(d_packed).slice_columns(begin, begin + width));
      return own;
    };
    matrix_view<T> through_others;
    index begin = width_of(first);
    for (std::size_t i = 0; i < others.size(); ++i) {
      index const width = width_of(others[i]);
      auto const dx =
          others[i].backward_input(c, columns(begin, width), kept.others[i], through_others);
      through_others = dx;
      begin += width;
    }
    return backward_input_of(first, c, placed_like(gradient, columns(0, width_of(first))),
                             kept.first, through_others);
  }

  /// As of linear.
  void input_again(saved& kept, matrix_view<T const> x) const {
    first.input_again(kept.first, x);
    for (std::size_t i = 0; i < others.size(); ++i)
      others[i].input_again(kept.others[i], kept.first.x);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    first.backward_weight(c, kept.first);
    for (std::size_t i = 0; i < others.size(); ++i) others[i].backward_weight(c, kept.others[i]);
  }

  void visit_parameters(auto&& visit) {
    visit_parameters_of(first, visit);
    for (auto& part : others) visit_parameters_of(part, visit);
  }

 private:
  template <class Stream>
  [[nodiscard]] auto project(context<Stream>& c, matrix_view<T const> x, saved& kept) const {
    using result = decltype(first.forward(c, x, kept.first));
    if (others.empty()) return first.forward(c, x, kept.first);
    first.keep(c, x, kept.first);
    matrix_view<T const> const all = kept.first.x;
    auto const packed = c.template allocate<T, 2>({all.extent(0), width()});
    index begin = 0;
    auto const project = [&](auto const& part, matrix_view<T const> from, auto& kept_of) {
      arena::scope const temporaries(c.memory);
      auto const y = c.template allocate<T, 2>({all.extent(0), width_of(part)});
      part.apply(c, y, from, kept_of);
      ops::copy(c.stream, ops::rows_view<T>(packed).slice_columns(begin, begin + width_of(part)),
                ops::rows_view<T const>(y));
      begin += width_of(part);
    };
    project(first, x, kept.first);
    for (std::size_t i = 0; i < others.size(); ++i) {
      others[i].keep(c, all, kept.others[i]);
      project(others[i], all, kept.others[i]);
    }
    return placed_like(result{}, packed);
  }

  [[nodiscard]] static index width_of(linear<T> const& part) { return part.weight.extents[0]; }
  template <class Other>
  [[nodiscard]] static index width_of(Other const& part) {
    return width_of(part.inner);
  }

  [[nodiscard]] index width() const {
    index all = width_of(first);
    for (auto const& part : others) all += width_of(part);
    return all;
  }
};

/// Of one rank.
template <class T>
qkv_projection(std::vector<linear<T>>) -> qkv_projection<T>;

}  // namespace parallel
