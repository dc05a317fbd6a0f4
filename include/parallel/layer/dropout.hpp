// dropout: a layer whose output passes through dropout: each element is zeroed with probability p
// and else scaled by 1/(1-p) (Srivastava et al., 2014). The mask is a function of seed, operation,
// step and global element, so nothing is kept; p = 0 costs nothing.
#pragma once

#include <utility>

#include <parallel/layer/concepts.hpp>
#include <parallel/ops/dropout.hpp>

namespace parallel {

/// Which columns of a matrix are here: as many as are given, from `first` on, of `whole`.
struct column_share {
  index first = 0;
  index whole = 0;  // 0: all are here
};

/// y = dropout(x) for the rows here of a matrix of the microbatch, or some columns of them; y may
/// be x.
template <class Stream, class T>
void drop_rows(context<Stream>& c, matrix_view<T> y, std::type_identity_t<matrix_view<T const>> x,
               float probability, std::uint32_t operation, column_share columns = {}) {
  index const width = x.extent(1);
  index const whole = columns.whole == 0 ? width : columns.whole;
  auto const number = [](index n) { return static_cast<std::size_t>(n); };
  c.for_each_span(x.extent(0), [&](index row, index count, std::uint64_t global_row) {
    ops::dropout(c.stream, y.slice(row, row + count).span(), x.slice(row, row + count).span(),
                 {.probability = probability,
                  .random = c.random(operation),
                  .first_element = global_row * number(whole) + number(columns.first),
                  .columns = whole == width ? 0 : number(width),
                  .whole_columns = whole == width ? 0 : number(whole)});
  });
}

template <class Inner>
struct dropout {
  using element = typename Inner::element;
  using saved = typename Inner::saved;

  Inner inner;
  float probability = 0.0F;
  std::uint32_t operation = 0;  // stream_id of a name unique in the model

  dropout() = default;
  dropout(Inner layer, float p, std::uint32_t id)
      : inner(std::move(layer)), probability(p), operation(id) {}

  template <class Stream>
  [[nodiscard]] matrix_view<element> forward(context<Stream>& c, matrix_view<element const> x,
                                             saved& kept) const {
    auto y = inner.forward(c, x, kept);
    if (active(c)) apply(c, y, y);
    return y;
  }

  /// The mask falls on what Inner gives alone.
  template <class Stream>
  [[nodiscard]] matrix_view<element> forward(context<Stream>& c, matrix_view<element const> x,
                                             saved& kept, matrix_view<element const> onto) const {
    if (!active(c)) return forward_onto(inner, c, x, kept, onto);
    auto y = forward(c, x, kept);
    if (onto.size() > 0) ops::add(c.stream, y.span(), onto.span());
    return y;
  }

  /// The forward pass's mask falls on the gradient.
  template <class Stream>
  [[nodiscard]] matrix_view<element> backward_input(context<Stream>& c,
                                                    matrix_view<element const> dy,
                                                    saved& kept) const {
    return inner.backward_input(c, masked(c, dy), kept);
  }
  template <class Stream>
  [[nodiscard]] matrix_view<element> backward_input(context<Stream>& c,
                                                    matrix_view<element const> dy, saved& kept,
                                                    matrix_view<element const> onto) const {
    return backward_input_onto(inner, c, masked(c, dy), kept, onto);
  }
  /// See concepts.hpp.
  template <class Stream, class... Onto>
  void backward_input_into(context<Stream>& c, matrix_view<element> dx,
                           matrix_view<element const> dy, saved& kept, Onto... onto) const {
    parallel::backward_input_into(inner, c, dx, masked(c, dy), kept, onto...);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& kept) const {
    backward_weight_of(inner, c, kept);
  }

  void visit_parameters(auto&& visit) { visit_parameters_of(inner, visit); }

 private:
  template <class Stream>
  [[nodiscard]] bool active(context<Stream> const& c) const {
    return probability > 0.0F && c.mode == pass::training;
  }

  template <class Stream>
  [[nodiscard]] matrix_view<element const> masked(context<Stream>& c,
                                                  matrix_view<element const> dy) const {
    if (!active(c)) return dy;
    auto const out = c.template allocate<element, 2>(dy.extents());
    apply(c, out, dy);
    return out;
  }

  template <class Stream>
  void apply(context<Stream>& c, matrix_view<element> y, matrix_view<element const> x) const {
    drop_rows(c, y, x, probability, operation);
  }
};

}  // namespace parallel
