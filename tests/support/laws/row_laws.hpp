// Checks of operations on rows, matrices and tables: a device's stream must give the results of the
// reference. They run with guarded memory on any machine, and with a GPU's memory.
#pragma once

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <parallel/ops/affine.hpp>
#include <parallel/ops/attention/rope.hpp>
#include <parallel/ops/attention/temperature.hpp>
#include <parallel/ops/embedding.hpp>
#include <parallel/ops/loss/cross_entropy.hpp>
#include <parallel/ops/loss/sliced_cross_entropy.hpp>
#include <parallel/ops/matmul.hpp>
#include <parallel/ops/norm/norm.hpp>
#include <parallel/ops/norm/norm_gradients.hpp>
#include <parallel/ops/pointwise/bias.hpp>
#include <parallel/ops/reference.hpp>

#include "support/twin.hpp"

namespace test {

namespace ops = parallel::ops;

inline constexpr std::array<std::pair<index, index>, 6> row_shapes{
    {{0, 5}, {1, 33}, {131, 65}, {37, 768}, {5, 4099}, {700, 8}}};

template <class T, class Device>
void check_norms(both_sides<Device>& sides) {
  using A = accumulate_t<T>;
  for (auto const& shape : row_shapes)
    for (bool const centred : {true, false}) {
      auto const [rows, columns] = shape;
      double const offset = columns % 2 == 0 ? 1.0 : 0.0;  // of weights
      CAPTURE(shape.first);
      CAPTURE(shape.second);
      CAPTURE(centred);
      auto x = sides.template random<T>(rows * columns, 2.0);
      auto dy = sides.template random<T>(rows * columns), y = sides.template poisoned<T>(dy.size()),
           dx = sides.template poisoned<T>(dy.size()), sum = sides.template poisoned<T>(dy.size()),
           addend_values = sides.template random<T>(dy.size());
      auto weight = sides.template random<T>(columns), bias = sides.template random<T>(columns);
      auto mean = sides.template poisoned<A>(rows), rstd = sides.template poisoned<A>(rows);
      auto dweight = sides.template random<A>(columns), dbias = sides.template random<A>(columns);
      sides.run([&, rows = rows, columns = columns](auto& s) {
        auto const matrix = [&](auto& array) { return as_matrix(s, array, rows, columns); };
        if (centred)
          ops::layer_norm(s, matrix(y), as_vector(s, mean), as_vector(s, rstd), matrix(x),
                          as_vector(s, weight), as_vector(s, bias),
                          {.eps = 1e-4, .weight_offset = offset});
        else
          ops::rms_norm(s, matrix(y), as_vector(s, rstd), matrix(x), as_vector(s, weight),
                        {.eps = 1e-4, .weight_offset = offset});
      });
      if (centred) check_near(mean, 40.0 * unit<A>);
      check_near(rstd, 40.0 * unit<A>, 40.0 * unit<A>);
      check_near(y, 160.0 * unit<A>);
      // gradients from fixed statistics, which are the same on both sides
      auto fixed_mean = sides.template random<A>(rows, 0.1);
      auto fixed_rstd =
          sides.template twin_of<A>(std::vector<A>(static_cast<std::size_t>(rows), A(0.5)));
      sides.run([&, rows = rows, columns = columns](auto& s) {
        auto const matrix = [&](auto& array) { return as_matrix(s, array, rows, columns); };
        if (centred) {
          ops::layer_norm_backward_input(s, matrix(dx), matrix(dy), matrix(x), as_vector(s, weight),
                                         as_vector(s, fixed_mean), as_vector(s, fixed_rstd));
          ops::layer_norm_backward_input(s, matrix(sum), matrix(dy), matrix(x),
                                         as_vector(s, weight), as_vector(s, fixed_mean),
                                         as_vector(s, fixed_rstd), matrix(addend_values), offset);
          ops::layer_norm_backward_weight(s, as_vector(s, dweight), as_vector(s, dbias), matrix(dy),
                                          matrix(x), as_vector(s, fixed_mean),
                                          as_vector(s, fixed_rstd));
        } else {
          ops::rms_norm_backward_input(s, matrix(dx), matrix(dy), matrix(x), as_vector(s, weight),
                                       as_vector(s, fixed_rstd));
          ops::rms_norm_backward_input(s, matrix(sum), matrix(dy), matrix(x), as_vector(s, weight),
                                       as_vector(s, fixed_rstd), matrix(addend_values), offset);
          ops::rms_norm_backward_weight(s, as_vector(s, dweight), matrix(dy), matrix(x),
                                        as_vector(s, fixed_rstd));
        }
      });
      check_near(dx, 200.0 * unit<A>);
      check_near(sum, 200.0 * unit<A>);
      index const runs = ops::norm_gradient_runs(rows);
      auto weight_sums = sides.template poisoned<A>(runs * columns);
      auto bias_sums = sides.template poisoned<A>(centred ? runs * columns : 0);
      sides.run([&, rows = rows, columns = columns](auto& s) {
        auto const matrix = [&](auto& array) { return as_matrix(s, array, rows, columns); };
        auto const center = as_vector(s, fixed_mean);
        ops::norm_gradients(s, matrix(sum), as_matrix(s, weight_sums, runs, columns),
                            as_matrix(s, bias_sums, centred ? runs : 0, columns), matrix(dy),
                            matrix(x), as_vector(s, weight), centred ? center : center.slice(0, 0),
                            as_vector(s, fixed_rstd), matrix(addend_values), offset);
      });
      check_near(sum, 200.0 * unit<A>);
      check_near(weight_sums, 40.0 * 36 * unit<A>);
      check_near(bias_sums, 40.0 * 36 * unit<A>);
      double const sums = 40.0 * static_cast<double>(4 + rows) * unit<A>;
      check_near(dweight, sums);
      if (centred) check_near(dbias, sums);
    }
}

template <class T, class Device>
void check_biases(both_sides<Device>& sides) {
  for (auto const& shape : row_shapes) {
    auto const& [rows, columns] = shape;
    CAPTURE(shape.first);
    CAPTURE(shape.second);
    auto y = sides.template random<T>(rows * columns);
    auto sum = sides.template random<T>(rows * columns),
         addend_values = sides.template random<T>(rows * columns);
    auto bias = sides.template random<T>(columns);
    auto dbias = sides.template random<accumulate_t<T>>(columns);
    sides.run([&, rows = rows, columns = columns](auto& s) {
      ops::add_bias_backward(s, as_vector(s, dbias), as_matrix(s, y, rows, columns));
    });
    sides.run([&, rows = rows, columns = columns](auto& s) {
      ops::add_bias(s, as_matrix(s, y, rows, columns), as_vector(s, bias));
      ops::add_bias(s, as_matrix(s, sum, rows, columns), as_vector(s, bias),
                    as_matrix(s, addend_values, rows, columns));
    });
    if constexpr (std::is_integral_v<T>) {
      check_equal(y);
      check_equal(sum);
      check_equal(dbias);
    } else {
      check_near(y, 0.0);
      check_near(sum, 4.0 * unit<accumulate_t<T>>);
      check_near(dbias, 8.0 * static_cast<double>(4 + rows) * unit<accumulate_t<T>>);
    }
  }
}

template <class T, class Device>
void check_tables(both_sides<Device>& sides) {
  using A = accumulate_t<T>;
  auto const check = [&](auto const& result, double absolute, double relative) {
    if constexpr (std::is_integral_v<T>)
      check_equal(result);
    else
      check_near(result, absolute, relative);
  };
  for (auto const& shape :
       {std::array<index, 3>{0, 7, 5}, {1, 3, 8}, {600, 11, 65}, {2048, 500, 768}}) {
    auto const& [tokens, rows, width] = shape;
    CAPTURE(shape[0]);
    CAPTURE(shape[2]);
    auto table = sides.template random<T>(rows * width),
         dy = sides.template random<T>(tokens * width),
         y = sides.template poisoned<T>(tokens * width);
    auto gradient = sides.template random<A>(rows * width);
    auto sliced = sides.template poisoned<T>(tokens * width);
    auto slice_gradient = sides.template random<A>(rows * width);
    auto ids = sides.random_ids(tokens, rows);
    auto far_ids = sides.random_ids(tokens, 3 * rows);
    ops::table_slice const slice{.first = rows, .vocabulary = 3 * rows};
    sides.run([&, tokens = tokens, rows = rows, width = width](auto& s) {
      auto const table_matrix = [&](auto& array) { return as_matrix(s, array, rows, width); };
      auto const token_matrix = [&](auto& array) { return as_matrix(s, array, tokens, width); };
      ops::embedding(s, token_matrix(y), as_vector(s, ids), table_matrix(table));
      ops::embedding_backward(s, table_matrix(gradient), token_matrix(dy), as_vector(s, ids));
      ops::embedding(s, token_matrix(sliced), as_vector(s, far_ids), table_matrix(table), slice);
      ops::embedding_backward(s, table_matrix(slice_gradient), token_matrix(dy),
                              as_vector(s, far_ids), slice);
    });
    double const sums = 8.0 * static_cast<double>(4 + tokens) * unit<A>;
    check(y, 0.0, 0.0);
    check(sliced, 0.0, 0.0);
    check(gradient, sums, unit<A>);
    check(slice_gradient, sums, unit<A>);
  }
  index const sequences = 3, length = 67, width = 40, positions = 70;
  auto table = sides.template random<T>(positions * width);
  auto y = sides.template random<T>(sequences * length * width);
  auto gradient = sides.template random<A>(positions * width);
  sides.run([&](auto& s) {
    auto const table_matrix = [&](auto& array) { return as_matrix(s, array, positions, width); };
    auto const token_matrix = [&](auto& array) {
      return as_matrix(s, array, sequences * length, width);
    };
    ops::add_positions_backward(s, table_matrix(gradient), token_matrix(y), length, {.first = 2});
    ops::add_positions(s, token_matrix(y), table_matrix(table), length, {.first = 2});
  });
  check(gradient, 64.0 * unit<A>, unit<A>);
  check(y, 0.0, 2.0 * unit<T>);
}

template <class T, class Device>
void check_positions_of_heads(both_sides<Device>& sides) {
  index const batch = 2, sequence = 65, heads = 3, dim = 40, row = 2 * heads * dim;
  auto const frequencies = ops::rope_frequencies(10000.0, dim);
  auto x = sides.template random<T>(batch * sequence * row);
  auto inverse = sides.template random<T>(batch * sequence * row);
  auto scaled = sides.template random<T>(batch * sequence * row);
  std::vector<double> growths;
  for (index i = 0; i < dim / 2; ++i) growths.push_back(-0.002 * static_cast<double>(i));
  sides.run([&](auto& s) {
    using element = std::remove_reference_t<decltype(*x.data_for(s))>;
    auto const keys = [&](element* data) -> ops::heads_view<element> {
      return {data + heads * dim, batch, sequence, heads, dim, sequence * row, row};
    };
    ops::rope(s, keys(x.data_for(s)), {.frequencies = frequencies, .first = 1000});
    ops::rope_backward(s, keys(inverse.data_for(s)), {.frequencies = frequencies, .first = 1000});
    ops::rope(s, keys(scaled.data_for(s)),
              {.frequencies = frequencies, .first = 1000, .growths = growths, .origin = 990});
  });
  check_near(x, 40.0 * unit<accumulate_t<T>>);
  check_near(inverse, 40.0 * unit<accumulate_t<T>>);
  check_near(scaled, 40.0 * unit<accumulate_t<T>>);

  auto queries = sides.template random<T>(batch * sequence * row);
  auto document_begins = sides.twin_of([&] {
    std::vector<std::int32_t> out;
    for (index r = 0; r < batch * sequence; ++r)
      out.push_back(static_cast<std::int32_t>(r % sequence / 20 * 20));
    return out;
  }());
  sides.run([&](auto& s) {
    using element = std::remove_reference_t<decltype(*queries.data_for(s))>;
    ops::temperature(
        s, ops::rows_view<element>(queries.data_for(s) + 3, batch * sequence, heads * dim, row),
        {.scale = 0.1,
         .floor_scale = 8.0,
         .sequence = sequence,
         .document_begins = {document_begins.data_for(s),
                             static_cast<std::size_t>(document_begins.size())}});
  });
  check_near(queries, 0.0, 2.0 * unit<T> + 8.0 * unit<accumulate_t<T>>);
}

/// Products of matrices. Some devices also round the sum before they add C in bf16 to it.
template <class C, class T, class Device>
void check_products(both_sides<Device>& sides) {
  for (auto const& shape : {std::array<index, 3>{1, 1, 1},
                            {0, 8, 8},
                            {17, 33, 65},
                            {128, 256, 192},
                            {130, 96, 513},
                            {8, 50, 0}})
    for (int variant = 0; variant < 12; ++variant) {  // the last four variants have an addend
      auto const [m, n, k] = shape;
      ops::matmul_options const options{.transpose_a = (variant & 1) != 0,
                                        .transpose_b = (variant & 2) != 0,
                                        .accumulate = variant / 4 == 1};
      CAPTURE(shape[0]);
      CAPTURE(shape[1]);
      CAPTURE(shape[2]);
      CAPTURE(variant);
      auto a = sides.template random<T>(m * k), b = sides.template random<T>(k * n);
      auto c =
          options.accumulate ? sides.template random<C>(m * n) : sides.template poisoned<C>(m * n);
      auto addend_values = sides.template random<C>(m * n);
      sides.run([&, m = m, n = n, k = k](auto& s) {
        auto const view_as_stored = [&](auto& array, index rows, index columns, bool transposed) {
          return transposed ? as_matrix(s, array, columns, rows)
                            : as_matrix(s, array, rows, columns);
        };
        auto addend = as_matrix(s, addend_values, m, n);
        if (variant / 4 < 2) addend = {};
        ops::matmul(s, as_matrix(s, c, m, n), view_as_stored(a, m, k, options.transpose_a),
                    view_as_stored(b, k, n, options.transpose_b), options, addend);
      });
      if constexpr (std::is_integral_v<T>) {
        check_equal(c);
      } else {
        // k addends of about 1, in any order; added one by one, a few elements in a hundred million
        // have an error above half of this bound
        double const sums = 8.0 * static_cast<double>(k + 4) * unit<accumulate_t<T>>;
        double const addend_rounding = options.accumulate && sizeof(C) == 2
                                           ? 4.0 * std::sqrt(static_cast<double>(k)) * unit<C>
                                           : 0.0;
        check_near(c, sums + addend_rounding, 2.0 * unit<C>);
      }
    }
}

/// Linear layers with a bias. Some devices round the result once, others twice. The bias of the
/// last shape is not aligned.
template <class T, class Device>
void check_affine(both_sides<Device>& sides) {
  for (auto const& shape :
       {std::array<index, 4>{1, 1, 1, 0}, {17, 33, 65, 0}, {128, 256, 192, 0}, {64, 48, 32, 1}}) {
    auto const& [m, n, k, bias_offset] = shape;
    CAPTURE(shape[0]);
    CAPTURE(shape[1]);
    CAPTURE(shape[2]);
    auto x = sides.template random<T>(m * k), weight = sides.template random<T>(n * k);
    auto bias = sides.template random<T>(bias_offset + n),
         addend_values = sides.template random<T>(m * n);
    auto y = sides.template poisoned<T>(m * n), sum = sides.template poisoned<T>(m * n);
    sides.run([&, m = m, n = n, k = k, bias_offset = bias_offset](auto& s) {
      auto const shift = as_vector(s, bias).slice(bias_offset, bias_offset + n);
      auto const input = as_matrix(s, x, m, k), w = as_matrix(s, weight, n, k);
      ops::affine(s, as_matrix(s, y, m, n), input, w, shift);
      ops::affine(s, as_matrix(s, sum, m, n), input, w, shift, as_matrix(s, addend_values, m, n));
    });
    for (auto const* const result : {&y, &sum})
      if constexpr (std::is_integral_v<T>)
        check_equal(*result);
      else  // sums of k addends of about 1, plus the first of two roundings
        check_near(*result, 4.0 * static_cast<double>(k + 4) * unit<accumulate_t<T>> +
                                4.0 * std::sqrt(static_cast<double>(k)) * unit<T>);
    for (bool const accumulate : {false, true}) {
      using A = accumulate_t<T>;
      auto gradient = sides.template random<A>(n * k);
      auto shift = sides.template random<A>(bias_offset + n);
      sides.run([&, m = m, n = n, k = k, bias_offset = bias_offset](auto& s) {
        ops::affine_backward_weight(s, as_matrix(s, gradient, n, k),
                                    as_vector(s, shift).slice(bias_offset, bias_offset + n),
                                    as_matrix(s, addend_values, m, n), as_matrix(s, x, m, k),
                                    accumulate);
      });
      if constexpr (std::is_integral_v<T>) {
        check_equal(gradient);
        check_equal(shift);
      } else {
        check_near(gradient, 8.0 * static_cast<double>(m + 4) * unit<A>);
        check_near(shift, 8.0 * static_cast<double>(m + 4) * unit<A>);
      }
    }
  }
}

/// Cross entropy of logits of type L over a whole vocabulary, and over one in two slices. Where the
/// gradient's type T is the same, the gradient also overwrites the logits.
template <class T, class L, class Device>
void check_cross_entropies(both_sides<Device>& sides) {
  using A = accumulate_t<T>;
  for (auto const& shape :
       {std::pair<index, index>{1, 8}, {70, 66}, {33, 1002}, {5, 50368}, {3, 60006}}) {
    auto const& [rows, vocabulary] = shape;
    CAPTURE(shape.first);
    CAPTURE(shape.second);
    auto logits = sides.template random<L>(rows * vocabulary, 3.0);
    auto labels = sides.twin_of([&, rows = rows, vocabulary = vocabulary] {
      auto ids =
          ops_support::random_ids(rows, static_cast<std::int32_t>(vocabulary), sides.next_seed());
      if (rows > 1) ids[1] = -100;
      return ids;
    }());
    auto gradient = sides.template poisoned<T>(logits.size());
    auto losses = sides.template poisoned<A>(rows), losses_only = sides.template poisoned<A>(rows);
    auto correct = sides.template poisoned<std::uint8_t>(rows),
         correct_only = sides.template poisoned<std::uint8_t>(rows);
    ops::cross_entropy_options const options{.scale = 0.7};
    sides.run([&, rows = rows, vocabulary = vocabulary](auto& s) {
      using element = std::remove_reference_t<decltype(*gradient.data_for(s))>;
      auto const z = as_matrix(s, logits, rows, vocabulary);
      ops::cross_entropy(s, as_matrix(s, gradient, rows, vocabulary), as_vector(s, losses),
                         as_vector(s, correct), z, as_vector(s, labels), options);
      ops::cross_entropy(s, matrix_view<element>{}, as_vector(s, losses_only),
                         as_vector(s, correct_only), z, as_vector(s, labels), options);
    });
    double const loss = 100.0 * unit<A>;
    check_near(losses, loss, loss);
    check_near(losses_only, loss, loss);
    check_equal(correct);
    check_equal(correct_only);
    check_near(gradient, 40.0 * unit<A>, 2.0 * unit<T> + 100.0 * unit<A>);
    if constexpr (std::is_same_v<T, L>) {
      sides.run([&, rows = rows, vocabulary = vocabulary](auto& s) {
        auto const z = as_matrix(s, logits, rows, vocabulary);
        ops::cross_entropy(s, z, as_vector(s, losses), as_vector(s, correct), z,
                           as_vector(s, labels), options);
      });
      check_near(losses, loss, loss);
      check_near(logits, 40.0 * unit<A>, 2.0 * unit<T> + 100.0 * unit<A>);
    }

    index const slice_width = vocabulary / 2;
    auto statistics = sides.template poisoned<A>(2 * rows * 4);
    std::vector<twin<L, Device>> slices;
    std::vector<twin<T, Device>> gradients;
    for (int slice = 0; slice < 2; ++slice) {
      slices.push_back(sides.template random<L>(rows * slice_width, 3.0));
      gradients.push_back(sides.template poisoned<T>(rows * slice_width));
    }
    auto const slice_options = [slice_width, vocabulary = vocabulary](index slice) {
      return ops::sliced_cross_entropy_options{
          .scale = 0.7, .first = slice * slice_width, .vocabulary = vocabulary};
    };
    auto const differentiate = [&, rows = rows](auto& s, auto& targets) {
      using wide = std::remove_reference_t<decltype(*statistics.data_for(s))>;
      for (std::size_t slice = 0; slice < 2; ++slice)
        ops::sliced_cross_entropy(
            s, as_matrix(s, targets[slice], rows, slice_width), as_vector(s, losses),
            as_vector(s, correct), as_matrix(s, slices[slice], rows, slice_width),
            as_vector(s, labels),
            parallel::tensor_view<wide const, 3>(statistics.data_for(s), {2, rows, 4}),
            slice_options(static_cast<index>(slice)));
    };
    sides.run([&, rows = rows](auto& s) {
      using wide = std::remove_reference_t<decltype(*statistics.data_for(s))>;
      for (index slice = 0; slice < 2; ++slice)
        ops::vocabulary_statistics(
            s, matrix_view<wide>(statistics.data_for(s) + slice * rows * 4, {rows, 4}),
            as_matrix(s, slices[static_cast<std::size_t>(slice)], rows, slice_width),
            as_vector(s, labels), slice_options(slice));
      differentiate(s, gradients);
    });
    check_near(losses, loss, loss);
    check_equal(correct);
    for (auto const& slice_gradient : gradients)
      check_near(slice_gradient, 40.0 * unit<A>, 2.0 * unit<T> + 100.0 * unit<A>);
    if constexpr (std::is_same_v<T, L>) {
      sides.run([&](auto& s) { differentiate(s, slices); });
      for (auto const& slice_gradient : slices)
        check_near(slice_gradient, 40.0 * unit<A>, 2.0 * unit<T> + 100.0 * unit<A>);
    }
  }
}

}  // namespace test
