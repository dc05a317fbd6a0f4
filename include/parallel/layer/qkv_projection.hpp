// The projection to packed rows [Q | K | V]: one matrix ("Wqkv") or three ("Wq", "Wk", "Wv"), then
// optional clipping.
#pragma once

#include <cstdint>
#include <vector>

#include <parallel/layer/linear.hpp>
#include <parallel/ops/clip.hpp>
#include <parallel/ops/elementwise.hpp>
#include <parallel/ops/rows_view.hpp>

namespace parallel {

/// Keeps its input, its gradient, and with clipping one byte per element. Three matrices cost a
/// copy of the packed rows more than one, each way.
template <class T>
struct qkv_projection {
  std::vector<linear<T>> parts;  // their results side by side are the packed row
  float clip = 0.0F;             // results are clamped to [-clip, clip]; 0: not

  struct saved {
    std::vector<typename linear<T>::saved> parts;
    vector_view<std::uint8_t> inside;  // where clipping left the value alone
  };

  template <class Stream>
  [[nodiscard]] matrix_view<T> forward(context<Stream>& c, matrix_view<T const> x,
                                       saved& kept) const {
    kept.parts.resize(parts.size());
    auto const packed = project(c, x, kept);
    if (clip > 0.0F) {
      if (c.mode == pass::training)
        kept.inside = c.template allocate<std::uint8_t, 1>({packed.size()});
      ops::clip(c.stream, packed.span(), kept.inside.span(), clip);
    }
    return packed;
  }

  /// Overwrites d_packed where clipping stopped the gradient.
  template <class Stream>
  [[nodiscard]] matrix_view<T> backward_input(context<Stream>& c, matrix_view<T> d_packed,
                                              saved& kept) const {
    if (clip > 0.0F)
      ops::clip_backward(c.stream, d_packed.span(),
                         std::span<std::uint8_t const>(kept.inside.span()));
    if (parts.size() == 1) return parts[0].backward_input(c, d_packed, kept.parts[0]);
    matrix_view<T> dx;
    for_each_slice([&](std::size_t i, index begin, index end) {
      auto const own = c.template allocate<T, 2>({d_packed.extent(0), end - begin});
      ops::copy(c.stream, ops::rows_view<T>(own),
                ops::rows_view<T const>(d_packed).slice_columns(begin, end));
      auto const part = parts[i].backward_input(c, own, kept.parts[i]);
      if (i == 0)
        dx = part;
      else
        ops::add(c.stream, dx.span(), std::span<T const>(part.span()));
    });
    return dx;
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].backward_weight(c, kept.parts[i]);
  }

  void visit_parameters(auto&& visit) {
    for (auto& part : parts) part.visit_parameters(visit);
  }

 private:
  template <class Stream>
  [[nodiscard]] matrix_view<T> project(context<Stream>& c, matrix_view<T const> x,
                                       saved& kept) const {
    if (parts.size() == 1) return parts[0].forward(c, x, kept.parts[0]);
    auto const packed = c.template allocate<T, 2>({x.extent(0), width()});
    for_each_slice([&](std::size_t i, index begin, index end) {
      arena::scope const temporaries(c.memory);
      matrix_view<T const> const y = parts[i].forward(c, x, kept.parts[i]);
      ops::copy(c.stream, ops::rows_view<T>(packed).slice_columns(begin, end),
                ops::rows_view<T const>(y));
    });
    return packed;
  }

  /// f(i, first column, end column) of each part.
  template <class F>
  void for_each_slice(F&& f) const {
    index begin = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      index const end = begin + parts[i].weight.extents[0];
      f(i, begin, end);
      begin = end;
    }
  }

  [[nodiscard]] index width() const {
    index all = 0;
    for (auto const& part : parts) all += part.weight.extents[0];
    return all;
  }
};

}  // namespace parallel
