#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/element_type.hpp>
#include <parallel/support/files.hpp>

namespace element_type_test {
namespace pc = parallel::checkpoint;

TEST_CASE("element type: types are found by their names in files, and others are unknown") {
  for (int i = 0; i < static_cast<int>(pc::element_type::unknown); ++i) {
    auto const type = static_cast<pc::element_type>(i);
    CHECK(pc::element_type_named(pc::to_string(type)) == type);
    CHECK(pc::size_of(type) > 0);
  }
  CHECK(pc::element_type_named("F8_E4M3") == pc::element_type::unknown);
  CHECK(pc::element_type_named("f32") == pc::element_type::unknown);
  CHECK(pc::to_string(pc::element_type_of(parallel::dtype::bf16)) == "BF16");
  CHECK(pc::size_of(pc::element_type_of(parallel::dtype::u64)) == 8);
}

TEST_CASE("element type: all 65536 halves convert to the float of the same value") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    auto const half = static_cast<std::uint16_t>(bits);
    int const exponent = (half >> 10) & 31;
    int const fraction = half & 1023;
    float const value = pc::half_to_float(half);
    if (exponent == 31 && fraction != 0) {
      CHECK(std::isnan(value));
      continue;
    }
    double expected = exponent == 31  ? std::numeric_limits<double>::infinity()
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
    if (half >= 0x8000) expected = -expected;
    if (static_cast<double>(value) != expected || std::signbit(value) != (half >= 0x8000))
      FAIL("half " << bits << " became " << value << ", not " << expected);
  }
}

TEST_CASE("element type: floats convert to the nearest half, ties to even") {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {  // all finite halves that are not negative
    auto const half = static_cast<std::uint16_t>(bits);
    float const value = pc::half_to_float(half);
    float const next_value =
        bits == 0x7bff ? 65536.0F : pc::half_to_float(static_cast<std::uint16_t>(bits + 1));
    float const midpoint = (value + next_value) / 2;  // exact
    auto const even_half = static_cast<std::uint16_t>(bits + (bits & 1U));
    bool const is_nearest = pc::float_to_half(value) == half &&
                            pc::float_to_half(midpoint) == even_half &&
                            pc::float_to_half(std::nextafter(midpoint, 0.0F)) == half &&
                            pc::float_to_half(std::nextafter(midpoint, 1e9F)) == half + 1 &&
                            pc::float_to_half(-midpoint) == (even_half | 0x8000);
    if (!is_nearest) FAIL("around half " << bits);
  }
  CHECK(pc::float_to_half(std::numeric_limits<float>::infinity()) == 0x7c00);
  CHECK(pc::float_to_half(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(std::isnan(pc::half_to_float(pc::float_to_half(std::nanf("")))));
  CHECK(pc::float_to_half(1e-40F) == 0);
  CHECK_FALSE(pc::overflows_half(65519.0F));
  CHECK(pc::overflows_half(65520.0F));
  CHECK(pc::overflows_half(-1e30F));
  CHECK_FALSE(pc::overflows_half(std::numeric_limits<float>::infinity()));
}

TEST_CASE(
    "element type: conversion rounds to the nearest bf16 and widens exactly, at any alignment") {
  std::vector<float> const source = {0.0F, -1.5F, 3.14159274F, 1e-40F, 65504.0F};
  std::vector<std::byte> shifted(1 + source.size() * 4);
  std::memcpy(shifted.data() + 1, source.data(), source.size() * 4);
  auto const bytes = std::span<std::byte const>(shifted).subspan(1);

  std::vector<float> floats(source.size());
  pc::convert(pc::element_type::f32, bytes, std::span(floats));
  CHECK(floats == source);
  std::vector<double> doubles(source.size());
  pc::convert(pc::element_type::f32, bytes, std::span(doubles));
  std::vector<parallel::bf16> narrow(source.size());
  pc::convert(pc::element_type::f32, bytes, std::span(narrow));
  for (std::size_t i = 0; i < source.size(); ++i) {
    CHECK(doubles[i] == static_cast<double>(source[i]));
    CHECK(narrow[i] == parallel::bf16(source[i]));
  }
  std::vector<double> const wide = {0.1, -2.0};
  std::vector<float> rounded(2);
  pc::convert(pc::element_type::f64, std::as_bytes(std::span(wide)), std::span(rounded));
  CHECK(rounded == std::vector<float>{0.1F, -2.0F});
}

TEST_CASE("element type: conversion refuses whole numbers and sizes that do not fit") {
  std::vector<std::byte> bytes(8);
  std::vector<float> out(2);
  CHECK(test::contains(
      test::message_of([&] { pc::convert(pc::element_type::i32, bytes, std::span(out)); }),
      "type I32 are not real numbers"));
  CHECK(test::contains(
      test::message_of([&] { pc::convert(pc::element_type::f16, bytes, std::span(out)); }),
      "2 elements of F16 got 8 bytes"));
}

TEST_CASE(
    "element type: the volume of a shape is checked for overflow, but empty shapes are empty") {
  using shape = std::vector<parallel::index>;
  CHECK(pc::checked_volume(shape{}, 4, "x") == 1);
  CHECK(pc::checked_volume(shape{2, 3}, 4, "x") == 6);
  CHECK(pc::checked_volume(shape{parallel::index{1} << 40, parallel::index{1} << 40, 0}, 4, "x") ==
        0);
  for (auto const& bad :
       {shape{parallel::index{1} << 40, parallel::index{1} << 40}, shape{parallel::index{1} << 61},
        shape{std::numeric_limits<parallel::index>::max(), 2}})
    CHECK(test::contains(
        test::message_of([&] { static_cast<void>(pc::checked_volume(bad, 4, "tensor t")); }),
        "tensor t: its shape has more elements"));
  CHECK(test::contains(
      test::message_of([&] { static_cast<void>(pc::checked_volume(shape{-1}, 4, "t")); }),
      "negative extent -1"));
}

}  // namespace element_type_test
