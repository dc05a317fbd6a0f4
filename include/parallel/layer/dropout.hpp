// dropout: a layer whose output passes through dropout: each element is zeroed with probability p
// and otherwise scaled by 1/(1-p) (Srivastava et al., 2014). The mask is a function of seed,
// operation, step and global element, so nothing is kept; p = 0 costs nothing.
#pragma once

#include <utility>

#include <parallel/layer/concepts.hpp>
#include <parallel/ops/pointwise/dropout.hpp>

namespace parallel {

/// The columns of a whole matrix that a view holds: as many as it has, from `first` on, of `whole`.
struct column_share {
  index first = 0;
  index whole = 0;  ///< 0: the view holds all columns
};

/// y = dropout(x) for the local rows of a matrix of the microbatch, or for some columns of them; y
/// may be x.
template <class Stream, class T>
void drop_rows(context<Stream>& c, matrix_view<T> y, std::type_identity_t<matrix_view<T const>> x,
               float probability, std::uint32_t operation, column_share columns = {}) {
  index const width = x.extent(1);
  index const whole = columns.whole == 0 ? width : columns.whole;
  auto const unsigned_count = [](index n) { return static_cast<std::size_t>(n); };
  c.for_each_span(x.extent(0), [&](index row, index count, std::uint64_t global_row) {
    ops::dropout(
        c.stream, y.slice(row, row + count).span(), x.slice(row, row + count).span(),
        {.probability = probability,
         .random = c.random(operation),
         .first_element = global_row * unsigned_count(whole) + unsigned_count(columns.first),
         .columns = whole == width ? 0 : unsigned_count(width),
         .whole_columns = whole == width ? 0 : unsigned_count(whole)});
  });
}

template <class Inner>
struct dropout {
  using element = typename Inner::element;
  using saved = typename Inner::saved;

  static constexpr std::string_view layer_of_whole_sequences(sequence_division division) {
    return parallel::layer_of_whole_sequences<Inner>(division);
  }

  Inner inner;
  float probability = 0.0F;
  std::uint32_t operation = 0;  ///< stream_id of a name unique in the model

  dropout() = default;
  dropout(Inner layer, float p, std::uint32_t operation_id)
      : inner(std::move(layer)), probability(p), operation(operation_id) {}

  template <class Stream>
  [[nodiscard]] matrix_view<element> forward(context<Stream>& c, matrix_view<element const> x,
                                             saved& state) const {
    auto y = inner.forward(c, x, state);
    if (active(c)) apply(c, y, y);
    return y;
  }

  /// The mask applies to the result of Inner alone, not to the summand.
  template <class Stream>
  [[nodiscard]] matrix_view<element> forward(context<Stream>& c, matrix_view<element const> x,
                                             saved& state,
                                             matrix_view<element const> summand) const {
    if (!active(c)) return forward_onto(inner, c, x, state, summand);
    auto y = forward(c, x, state);
    if (summand.size() > 0) ops::add(c.stream, y.span(), summand.span());
    return y;
  }

  /// The gradient passes through the mask of the forward pass.
  template <class Stream>
  [[nodiscard]] matrix_view<element> backward_input(context<Stream>& c,
                                                    matrix_view<element const> dy,
                                                    saved& state) const {
    return inner.backward_input(c, masked(c, dy), state);
  }
  template <class Stream>
  [[nodiscard]] matrix_view<element> backward_input(context<Stream>& c,
                                                    matrix_view<element const> dy, saved& state,
                                                    matrix_view<element const> summand) const {
    return backward_input_onto(inner, c, masked(c, dy), state, summand);
  }
  /// See concepts.hpp.
  template <class Stream, class... Summand>
  void backward_input_into(context<Stream>& c, matrix_view<element> dx,
                           matrix_view<element const> dy, saved& state, Summand... summand) const {
    parallel::backward_input_into(inner, c, dx, masked(c, dy), state, summand...);
  }

  template <class Stream>
  void backward_weight(context<Stream>& c, saved const& state) const {
    backward_weight_of(inner, c, state);
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
