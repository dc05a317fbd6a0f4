// Checks of operations on flat arrays, of sums and of optimizers: a device's stream must give the
// results of the reference. They run with guarded memory on any machine, and with a GPU's memory.
#pragma once

#include <algorithm>
#include <cstdint>

#include <parallel/core/exact_sum.hpp>
#include <parallel/ops/pointwise/activation.hpp>
#include <parallel/ops/pointwise/clip.hpp>
#include <parallel/ops/pointwise/dropout.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>
#include <parallel/ops/pointwise/softcap.hpp>
#include <parallel/ops/reduce.hpp>
#include <parallel/ops/reference.hpp>
#include <parallel/ops/rows.hpp>
#include <parallel/ops/update/element_update.hpp>

#include "support/twin.hpp"

namespace test {

namespace ops = parallel::ops;

inline constexpr index flat_sizes[] = {0, 1, 31, 1001, 40001};

template <class T, class Device>
void check_elementwise(both_sides<Device>& sides) {
  constexpr double ulp = 2.0 * unit<T>;
  for (index const count : flat_sizes) {
    CAPTURE(count);
    auto x = sides.template random<T>(count), filled = sides.template poisoned<T>(count),
         copied = sides.template poisoned<T>(count), sum = sides.template random<T>(count),
         product = sides.template random<T>(count), scaled = sides.template random<T>(count);
    sides.run([&](auto& s) {
      using element = std::remove_reference_t<decltype(*x.data_for(s))>;
      ops::fill(s, elements(s, filled), static_cast<element>(3));
      ops::copy(s, elements(s, copied), elements(s, x));
      ops::add(s, elements(s, sum), elements(s, x));
      ops::multiply(s, elements(s, product), elements(s, x));
      ops::scale(s, elements(s, scaled), accumulate_t<element>(5));
    });
    check_equal(filled);
    check_equal(copied);
    if constexpr (std::is_integral_v<T>) {
      check_equal(sum);
      check_equal(product);
      check_equal(scaled);
    } else {
      check_near(sum, 0.0, ulp);
      check_near(product, 0.0, ulp);
      check_near(scaled, 0.0, ulp);
    }
  }
  index const rows = 37, columns = 45, stride = 61;  // columns of a wider matrix
  auto source = sides.template random<T>(rows * stride);
  auto destination = sides.template random<T>(rows * stride);
  sides.run([&](auto& s) {
    using element = std::remove_reference_t<decltype(*destination.data_for(s))>;
    ops::copy(s, ops::rows_view<element>(destination.data_for(s) + 5, rows, columns, stride),
              ops::rows_view<element const>(source.data_for(s) + 9, rows, columns, stride));
  });
  check_equal(destination);
}

template <class Device>
void check_casts(both_sides<Device>& sides) {
  using parallel::bf16;
  for (index const count : flat_sizes) {
    auto x = sides.template random<float>(count);
    auto narrow = sides.template poisoned<bf16>(count);
    auto narrow_values = sides.template random<bf16>(count);
    auto widened = sides.template poisoned<float>(count);
    auto summed = sides.template random<float>(count),
         divided = sides.template random<float>(count);
    auto rounded = sides.template random<bf16>(count);
    auto squared = sides.template poisoned<double>(1);
    sides.run([&](auto& s) {
      ops::cast(s, elements(s, narrow), elements(s, x));
      ops::cast(s, elements(s, widened), elements(s, narrow_values));
      ops::axpby(s, elements(s, summed), elements(s, narrow_values), 0.5, -3.0);
      ops::axpby(s, elements(s, rounded), elements(s, x), 0.5, -3.0);
      ops::fill(s, elements(s, squared), 2.0);
      ops::normalise(s, elements(s, divided), squared.data_for(s), 0.5);
    });
    check_near(narrow, 0.0, unit<bf16>);
    check_near(summed, 4 * unit<float>, unit<float>);
    check_near(rounded, 4 * unit<float>, 2.0 * unit<bf16>);
    check_near(divided, 0.0, 2.0 * unit<float>);
    check_equal(widened);
  }
}

template <class T, class Device>
void check_activations(both_sides<Device>& sides) {
  using enum ops::activation_kind;
  for (auto const kind : {gelu, gelu_tanh, quick_gelu, silu, relu})
    for (index const count : flat_sizes) {
      CAPTURE(static_cast<int>(kind));
      CAPTURE(count);
      auto x = sides.template random<T>(count, 3.0), dy = sides.template random<T>(count);
      auto y = sides.template poisoned<T>(count), dx = sides.template poisoned<T>(count);
      sides.run([&](auto& s) {
        ops::activation(s, elements(s, y), elements(s, x), kind);
        ops::activation_backward(s, elements(s, dx), elements(s, x), elements(s, dy), kind);
      });
      check_near(y, 40.0 * unit<accumulate_t<T>>);
      check_near(dx, 200.0 * unit<accumulate_t<T>>);
    }
}

template <class T, class Device>
void check_clip_dropout_softcap(both_sides<Device>& sides) {
  using A = accumulate_t<T>;
  for (index const count : flat_sizes) {
    CAPTURE(count);
    auto x = sides.template random<T>(count), dx = sides.template random<T>(count);
    auto is_inside = sides.template poisoned<std::uint8_t>(count);
    sides.run([&](auto& s) {
      ops::clip(s, elements(s, x), elements(s, is_inside), 0.75F);
      ops::clip_backward(s, elements(s, dx), elements(s, is_inside));
    });
    check_equal(x);
    check_equal(is_inside);
    check_equal(dx);

    auto z = sides.template random<T>(count), dropped_out = sides.template poisoned<T>(count);
    ops::dropout_options const options{.probability = 0.3F,
                                       .random = parallel::philox(sides.next_seed(), 5),
                                       .first_element = (std::uint64_t{1} << 33U) + 3};
    sides.run([&](auto& s) { ops::dropout(s, elements(s, dropped_out), elements(s, z), options); });
    check_near(dropped_out, 0.0, 4.0 * unit<T>);

    auto logits = sides.template random<A>(count, 5.0), capped = sides.template poisoned<A>(count);
    auto dy = sides.template random<T>(count), dz = sides.template poisoned<T>(count);
    sides.run([&](auto& s) {
      ops::softcap(s, elements(s, capped), elements(s, logits), {.cap = 4.0, .scale = 0.5});
    });
    check_near(capped, 20.0 * unit<A>);
    auto fixed_logits = sides.template random<A>(count);
    sides.run([&](auto& s) {
      ops::softcap_backward(s, elements(s, dz), elements(s, fixed_logits), elements(s, dy),
                            {.cap = 4.0, .scale = 0.5});
    });
    check_near(dz, 10.0 * unit<A>);
  }
}

template <class T, class Device>
void check_reductions(both_sides<Device>& sides) {
  for (index const count : flat_sizes) {
    CAPTURE(count);
    auto x = sides.template random<T>(count);
    auto sums = sides.template twin_of<ops::sum_t<T>>({3, 4});
    auto is_finite = sides.template twin_of<int>({1});
    sides.run([&](auto& s) {
      ops::sum(s, sums.data_for(s), elements(s, x));
      ops::squared_norm(s, sums.data_for(s) + 1, elements(s, x));
      ops::all_finite(s, is_finite.data_for(s), elements(s, x));
    });
    if constexpr (std::is_integral_v<T>)
      check_equal(sums);
    else
      check_near(sums, 1e-9, 1e-9);
    check_equal(is_finite);
  }
}

/// squared_norm of real numbers adds without rounding; all_finite finds a number that is not finite
/// at any position.
template <class T, class Device>
void check_exact_norm(both_sides<Device>& sides) {
  for (index const count : flat_sizes) {
    auto x = sides.template random<T>(count, 1e3);
    auto sum = sides.template twin_of<double>({0.5, 1.5});
    double computed = 0, expected = 0;
    sides.run([&](auto& s) { ops::squared_norm(s, sum.data_for(s), elements(s, x)); });
    for (double const value : x.expected()) expected += value * value;
    computed = sum.values()[0] - 0.5;
    CHECK(std::abs(computed - expected) <= 1e-9 * expected);
  }
  auto values = ops_support::random<T>(40001, sides.next_seed());
  for (std::size_t const position : {std::size_t{0}, std::size_t{20011}, std::size_t{40000}}) {
    auto broken = values;
    broken[position] = ops_support::number<T>(INFINITY);
    auto x = sides.twin_of(broken);
    auto is_finite = sides.template twin_of<int>({1});
    sides.run([&](auto& s) { ops::all_finite(s, is_finite.data_for(s), elements(s, x)); });
    CHECK(is_finite.values()[0] == 0);
  }
}

/// exact_squared_norm gives the same digits as the reference.
template <class T, class Device>
void check_exact_sums(Device& device, std::uint64_t seed) {
  typename Device::stream_type stream(device.compute_options());
  for (index const count : flat_sizes) {
    auto const values = ops_support::random<T>(count, ++seed, 1e3);
    auto const x = device.template allocate<T>(values.size());
    device.upload(x.span(), std::span<T const>(values));
    auto const out = device.template allocate_shared<parallel::exact_sum>(1);
    out.data()[0] = {};
    parallel::exact_sum expected;
    ops::exact_squared_norm(stream, out.data(), std::span<T const>(x.span()));
    stream.synchronize();
    parallel::reference::stream reference;
    ops::exact_squared_norm(reference, &expected, std::span<T const>(values));
    auto computed = out.data()[0];
    CHECK(computed.value() == expected.value());
    CHECK(std::ranges::equal(computed.digits(), expected.digits()));
  }
}

template <class T, class Device>
void check_rows(both_sides<Device>& sides) {
  using A = accumulate_t<T>;
  for (auto const& [count, location] :
       {std::pair<index, ops::rows_location>{1001, {.first = 5, .width = 33}},
        {4000, {.first = 767, .width = 768}},
        {3, {.first = 0, .width = 1}}}) {
    auto x = sides.template random<T>(count);
    auto const rows = ops::detail::rows_needed(location, count);
    auto norms = sides.template random<double>(rows);
    auto factors = sides.template random<A>(rows);
    sides.run([&, location = location](auto& s) {
      ops::row_squared_norms(s, elements(s, norms), elements(s, x), location);
    });
    sides.run([&, location = location](auto& s) {
      ops::scale_rows(s, elements(s, x), elements(s, factors), location);
    });
    check_near(norms, 1e-9, 1e-9);
    check_near(x, 0.0);
  }
}

/// One update by each optimizer.
template <class T, class Device>
void check_optimizers(both_sides<Device>& sides) {
  using A = accumulate_t<T>;
  constexpr double rounding = unit<A>;
  for (index const count : flat_sizes) {
    CAPTURE(count);
    auto values = sides.template random<T>(count);
    auto master = sides.template random<A>(count);
    auto first_moment = sides.template random<A>(count, 0.1);
    auto second_moment = sides.twin_of([&] {
      auto numbers = ops_support::random<A>(count, sides.next_seed(), 0.1);
      for (auto& number : numbers) number = number * number;
      return numbers;
    }());
    auto gradients = sides.template random<A>(count);
    auto scale = sides.template twin_of<A>({A(0.25)});
    sides.run([&](auto& s) {
      using element = std::remove_reference_t<decltype(*scale.data_for(s))>;
      ops::adamw_options<element> const options{.lr = 2e-3,
                                                .initial_lr = 4e-3,
                                                .weight_decay = 1e-2,
                                                .step = 7,
                                                .gradient_scale = scale.data_for(s)};
      ops::adamw(s, elements(s, values), elements(s, master), elements(s, first_moment),
                 elements(s, second_moment), elements(s, gradients), options);
    });
    check_near(master, 64.0 * rounding, 16.0 * rounding);
    check_near(values, 64.0 * rounding, 2.0 * unit<T> + 16.0 * rounding);
    check_near(first_moment, 8.0 * rounding, 8.0 * rounding);
    check_near(second_moment, 8.0 * rounding, 8.0 * rounding);

    sides.run([&](auto& s) {
      using element = std::remove_reference_t<decltype(*scale.data_for(s))>;
      ops::lion_options<element> const options{.lr = 2e-3,
                                               .initial_lr = 4e-3,
                                               .weight_decay = 1e-2,
                                               .gradient_scale = scale.data_for(s)};
      ops::lion(s, elements(s, values), elements(s, master), elements(s, second_moment),
                elements(s, gradients), options);
    });
    // the sign of a number near 0 depends on rounding
    auto const computed = master.values();
    index wrong_count = 0;
    for (std::size_t i = 0; i < computed.size(); ++i)
      wrong_count += std::abs(double(computed[i]) - master.expected()[i]) <= 1e-6 ? 0 : 1;
    CHECK(wrong_count <= count / 10000);
    check_near(second_moment, 32.0 * rounding, 32.0 * rounding);
  }
}

}  // namespace test
