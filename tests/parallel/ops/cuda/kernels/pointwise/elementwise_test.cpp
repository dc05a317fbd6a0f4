// The bodies of the element-wise kernels on the host, against the reference loops, bit for bit.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <parallel/ops/cuda/kernels/pointwise/elementwise.hpp>
#include <parallel/ops/reference.hpp>

#include "parallel/ops/support.hpp"
#include "support/devices/guarded.hpp"

namespace cuda_elementwise_test {

using namespace parallel;
using parallel::index;
using testing::guarded;

constexpr std::size_t sizes[] = {0, 1, 3, 8, 37, 1000};
constexpr std::size_t offsets[] = {0, 1};

/// Numbers; the first is NaN if the type has one.
template <class T>
std::vector<T> numbers(std::size_t count, std::uint64_t seed) {
  auto out = ops_support::random<T>(static_cast<index>(count), seed, 3.0);
  if (!out.empty()) out[0] = ops_support::number<T>(std::numeric_limits<double>::quiet_NaN());
  return out;
}
template <>
std::vector<std::uint64_t> numbers(std::size_t count, std::uint64_t seed) {
  return ops_support::random<std::uint64_t>(static_cast<index>(count), seed);
}

/// Checks that make(y) changes `initial` to `expected`, in every order of threads and at every
/// alignment.
template <class T, class Make>
void expect(std::vector<T> const& initial, std::vector<T> const& expected, Make const& make) {
  testing::run_on_copies(initial, 2, 64, 0, make,
                         [&](auto const& y) { CHECK(ops_support::same_bits(y, expected)); });
}

TEST_CASE_TEMPLATE(
    "elementwise kernels: fill, add, multiply and scale equal the reference at any alignment", T,
    float, bf16, double, std::uint64_t) {
  for (auto const count : sizes) {
    auto const y = numbers<T>(count, 1);
    auto const x = numbers<T>(count, 2);
    auto const applied = [&](auto const& work) {
      auto out = y;
      reference::stream ref_stream;
      work(ref_stream, std::span<T>(out));
      return out;
    };
    auto const value = static_cast<T>(accumulate_t<T>(3));
    auto const factor = accumulate_t<T>(7) / accumulate_t<T>(2);

    expect(y, applied([&](auto& s, auto out) { ops::fill(s, out, value); }), [&](T* to) {
      return cuda::kernels::fill<T>{to, value, count};
    });
    expect(y, applied([&](auto& s, auto out) { ops::scale(s, out, factor); }), [&](T* to) {
      return cuda::kernels::scale<T>{to, factor, count};
    });
    for (auto const offset : offsets) {
      guarded<T> other(x, offset);
      expect(y, applied([&](auto& s, auto out) { ops::add(s, out, x); }), [&](T* to) {
        return cuda::kernels::add<T>{to, other.data(), count};
      });
      expect(y, applied([&](auto& s, auto out) { ops::multiply(s, out, x); }), [&](T* to) {
        return cuda::kernels::multiply<T>{to, other.data(), count};
      });
    }
  }
}

template <class T, class U>
void axpby_equals_the_reference() {
  for (auto const count : sizes) {
    auto const x = numbers<U>(count, 2);
    auto expected = numbers<T>(count, 1);
    reference::stream ref_stream;
    ops::axpby(ref_stream, std::span<T>(expected), std::span<U const>(x), 0.3, -1.7);
    for (auto const offset : offsets) {
      guarded<U> from(x, offset);
      using sum = typename cuda::kernels::axpby<T, U>::sum;
      expect(numbers<T>(count, 1), expected, [&](T* to) {
        return cuda::kernels::axpby<T, U>{to, from.data(), static_cast<sum>(0.3),
                                          static_cast<sum>(-1.7), count};
      });
    }
  }
}

TEST_CASE("elementwise kernels: axpby equals the reference at any alignment") {
  axpby_equals_the_reference<float, float>();
  axpby_equals_the_reference<float, bf16>();
  axpby_equals_the_reference<bf16, float>();
  axpby_equals_the_reference<double, bf16>();
  axpby_equals_the_reference<double, double>();
}

TEST_CASE_TEMPLATE("elementwise kernels: normalise equals the reference at any alignment", T, float,
                   bf16, double) {
  for (auto const count : sizes)
    for (double const squared : {2.0, 0.0}) {
      auto const y = numbers<T>(count, 1);
      auto expected = y;
      reference::stream ref_stream;
      ops::normalise(ref_stream, std::span<T>(expected), &squared, 0.3);
      expect(y, expected, [&](T* to) {
        return cuda::kernels::normalise<T>{to, &squared, 0.3, count};
      });
    }
}

TEST_CASE("elementwise kernels: add and multiply accept the same array twice") {
  auto const initial = numbers<float>(100, 3);
  auto doubled = initial, squared = initial;
  for (auto& v : doubled) v *= 2.0F;
  for (auto& v : squared) v *= v;
  expect(initial, doubled, [](float* y) { return cuda::kernels::add<float>{y, y, 100}; });
  expect(initial, squared, [](float* y) { return cuda::kernels::multiply<float>{y, y, 100}; });
}

template <class To, class From>
void casts_equal_the_reference() {
  for (auto const count : sizes) {
    auto const x = numbers<From>(count, 4);
    auto expected = numbers<To>(count, 5);
    reference::stream ref_stream;
    ops::cast(ref_stream, std::span<To>(expected), std::span<From const>(x));
    for (auto const offset : offsets) {
      guarded<From> from(x, offset);
      expect(numbers<To>(count, 5), expected, [&](To* to) {
        return cuda::kernels::cast<To, From>{to, from.data(), count};
      });
    }
  }
}

TEST_CASE_TEMPLATE("elementwise kernels: casts between widths equal the reference at any alignment",
                   From, float, bf16, double) {
  casts_equal_the_reference<float, From>();
  casts_equal_the_reference<bf16, From>();
  casts_equal_the_reference<double, From>();
}

TEST_CASE_TEMPLATE(
    "copy_rows kernel: rows that lie apart are copied, and elements between them are unchanged", T,
    float, bf16, double, std::uint64_t) {
  struct shape {
    index rows, columns, y_stride, x_stride;
  };
  for (auto const& shape :
       {shape{0, 8, 8, 8}, shape{3, 0, 8, 8}, shape{1, 1, 1, 1}, shape{5, 24, 24, 48},
        shape{5, 24, 32, 24}, shape{7, 5, 9, 6}, shape{3, 24, 25, 24}, shape{3, 1200, 1216, 1200},
        shape{2, 1201, 1203, 1202}})
    for (auto const offset : offsets) {
      auto const x = numbers<T>(static_cast<std::size_t>(shape.rows * shape.x_stride), 6);
      auto const y = numbers<T>(static_cast<std::size_t>(shape.rows * shape.y_stride), 7);
      auto expected = y;
      reference::stream ref_stream;
      ops::copy(ref_stream,
                ops::rows_view<T>(expected.data(), shape.rows, shape.columns, shape.y_stride),
                ops::rows_view<T const>(x.data(), shape.rows, shape.columns, shape.x_stride));
      guarded<T> from(x, offset);
      expect(y, expected, [&](T* to) {
        return cuda::kernels::copy_rows<T>{
            {to, shape.rows, shape.columns, shape.y_stride},
            {from.data(), shape.rows, shape.columns, shape.x_stride}};
      });
    }
}

}  // namespace cuda_elementwise_test
