// dtype: bf16, run-time names of element types, and the type in which each element type
// accumulates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <parallel/core/config.hpp>
#include <parallel/core/instructions.hpp>

namespace parallel {

/// bfloat16: the upper half of an IEEE float. Conversion rounds to nearest, ties to even; NaN stays
/// NaN. The type only stores numbers: arithmetic is done in float.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  PARALLELLM_HOST_DEVICE explicit bf16(float value) : bits(nearest_bf16(value)) {}
  PARALLELLM_HOST_DEVICE operator float() const {  // NOLINT(google-explicit-constructor): widening
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
  friend bool operator==(bf16 const&, bf16 const&) = default;
};

/// The run-time name of an element type (files, type-erased communicators).
enum class dtype : std::uint8_t { u8, i32, i64, u64, bf16, f16, f32, f64 };

/// The bytes of an element.
[[nodiscard]] constexpr std::size_t size_of(dtype type) {
  switch (type) {
    case dtype::u8: return 1;
    case dtype::bf16:
    case dtype::f16: return 2;
    case dtype::i32:
    case dtype::f32: return 4;
    default: return 8;
  }
}

[[nodiscard]] constexpr std::string_view to_string(dtype type) {
  constexpr std::string_view names[] = {"u8", "i32", "i64", "u64", "bf16", "f16", "f32", "f64"};
  return names[static_cast<std::size_t>(type)];
}

namespace detail {
template <class T>
struct dtype_of;
template <>
struct dtype_of<std::uint8_t> : std::integral_constant<dtype, dtype::u8> {};
template <>
struct dtype_of<std::byte> : std::integral_constant<dtype, dtype::u8> {};
template <>
struct dtype_of<std::int32_t> : std::integral_constant<dtype, dtype::i32> {};
template <>
struct dtype_of<std::int64_t> : std::integral_constant<dtype, dtype::i64> {};
template <>
struct dtype_of<std::uint64_t> : std::integral_constant<dtype, dtype::u64> {};
template <>
struct dtype_of<bf16> : std::integral_constant<dtype, dtype::bf16> {};
template <>
struct dtype_of<float> : std::integral_constant<dtype, dtype::f32> {};
template <>
struct dtype_of<double> : std::integral_constant<dtype, dtype::f64> {};

template <class T>
struct accumulate : std::type_identity<T> {};
template <>
struct accumulate<bf16> : std::type_identity<float> {};
}  // namespace detail

/// The dtype of an element type.
template <class T>
inline constexpr dtype dtype_of = detail::dtype_of<std::remove_cv_t<T>>::value;

/// The type in which sums, gradients and master weights of T are kept: float for bf16, else T.
template <class T>
using accumulate_t = typename detail::accumulate<std::remove_cv_t<T>>::type;

}  // namespace parallel
