// Element types as files name them ("F32", "BF16", ...), and conversion between the floating ones.
//
// Files have more types than the library computes with (bool, i8, u16, ...), so they have their own
// enumeration. Conversions go chunk by chunk through float; F16 has no type in the library, only
// its bits. F64 becomes BF16 through float, so its last bit may differ from a direct rounding.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>

namespace parallel::checkpoint {

static_assert(std::endian::native == std::endian::little, "tensors in files are little-endian");

/// The type of a tensor's elements in a file. `unknown`: named in the file, but not readable here.
enum class element_type : std::uint8_t {
  boolean,
  u8,
  i8,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  f64,
  i64,
  u64,
  unknown
};

namespace detail {
struct element_name {
  std::string_view name;
  std::uint8_t bytes;
};
inline constexpr element_name element_names[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"I16", 2}, {"U16", 2}, {"F16", 2}, {"BF16", 2},
    {"I32", 4},  {"U32", 4}, {"F32", 4}, {"F64", 8}, {"I64", 8}, {"U64", 8}};
}  // namespace detail

/// The name in a safetensors file: "F32". Not for `unknown`.
[[nodiscard]] constexpr std::string_view to_string(element_type type) {
  return type == element_type::unknown ? std::string_view("an unknown type")
                                       : detail::element_names[static_cast<std::size_t>(type)].name;
}

/// Bytes of one element; 0 for `unknown`.
[[nodiscard]] constexpr std::size_t size_of(element_type type) {
  return type == element_type::unknown
             ? 0
             : detail::element_names[static_cast<std::size_t>(type)].bytes;
}

/// The type a file calls `name`, or `unknown`.
[[nodiscard]] constexpr element_type element_type_named(std::string_view name) {
  for (std::size_t i = 0; i < std::size(detail::element_names); ++i)
    if (detail::element_names[i].name == name) return static_cast<element_type>(i);
  return element_type::unknown;
}

/// The element type in files that corresponds to a type of the library.
[[nodiscard]] constexpr element_type element_type_of(dtype type) {
  switch (type) {
    case dtype::u8: return element_type::u8;
    case dtype::i32: return element_type::i32;
    case dtype::i64: return element_type::i64;
    case dtype::u64: return element_type::u64;
    case dtype::bf16: return element_type::bf16;
    case dtype::f16: return element_type::f16;
    case dtype::f32: return element_type::f32;
    default: return element_type::f64;
  }
}

/// An IEEE half as a float; exact.
[[nodiscard]] inline float half_to_float(std::uint16_t half) {
  std::uint32_t const sign = (half & 0x8000U) << 16;
  std::uint32_t const exponent = (half >> 10) & 0x1fU;
  std::uint32_t const fraction = half & 0x3ffU;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24
    float const value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  std::uint32_t const wide = exponent == 31 ? 0xffU : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

/// Whether a finite float rounds to more than the largest IEEE half, 65504.
[[nodiscard]] constexpr bool overflows_half(float value) {
  return (value >= 65520.0F || value <= -65520.0F) && value - value == 0.0F;
}

/// The nearest IEEE half, ties to even; infinity where it overflows, NaN stays NaN.
[[nodiscard]] inline std::uint16_t float_to_half(float value) {
  auto const word = std::bit_cast<std::uint32_t>(value);
  std::uint32_t const sign = (word >> 16) & 0x8000U;
  std::uint32_t const size = word & 0x7fffffffU;
  auto const rounded = [&](std::uint32_t bits) { return static_cast<std::uint16_t>(sign | bits); };
  if (size > 0x7f800000U) return rounded(0x7e00U);
  if (size >= 0x477ff000U) return rounded(0x7c00U);  // 65520
  if (size < 0x38800000U) {                          // 2^-14: below it halves are k * 2^-24
    float const scaled = std::bit_cast<float>(size) * 0x1p24F;  // exact; adding 2^23 rounds it
    return rounded(std::bit_cast<std::uint32_t>(scaled + 0x1p23F) & 0x7fffffU);
  }
  return rounded((size - 0x38000000U + 0xfffU + ((size >> 13) & 1U)) >> 13);
}

/// The types that `convert` can write.
template <class T>
concept real_element =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, bf16>;

/// Whether `convert` can read this type.
[[nodiscard]] constexpr bool is_real(element_type type) {
  return type == element_type::f16 || type == element_type::bf16 || type == element_type::f32 ||
         type == element_type::f64;
}

namespace detail {
template <class To, class From, class Widen>
void convert_elements(std::byte const* source, std::span<To> out, Widen widen) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    From element;  // the bytes of a file may lie at any alignment
    std::memcpy(&element, source + i * sizeof(From), sizeof(From));
    if constexpr (std::is_same_v<To, bf16>)
      out[i] = bf16(static_cast<float>(widen(element)));
    else
      out[i] = static_cast<To>(widen(element));
  }
}
}  // namespace detail

/// Converts `out.size()` elements of type `from`; `source` holds exactly their bytes. Throws unless
/// `from` is F16, BF16, F32 or F64.
template <real_element To>
void convert(element_type from, std::span<std::byte const> source, std::span<To> out) {
  require(is_real(from), "elements of type ", to_string(from),
          " are not real numbers and cannot be converted");
  require(source.size() == out.size() * size_of(from), "conversion of ", out.size(),
          " elements of ", to_string(from), " got ", source.size(), " bytes");
  auto const identity = [](auto value) { return value; };
  switch (from) {
    case element_type::f16:
      detail::convert_elements<To, std::uint16_t>(source.data(), out, half_to_float);
      break;
    case element_type::bf16:
      detail::convert_elements<To, bf16>(source.data(), out,
                                         [](bf16 value) { return static_cast<float>(value); });
      break;
    case element_type::f32:
      detail::convert_elements<To, float>(source.data(), out, identity);
      break;
    default: detail::convert_elements<To, double>(source.data(), out, identity); break;
  }
}

/// The number of elements of a tensor of these extents (1 for a scalar). Throws, naming `subject`,
/// when an extent is negative, or the elements or their bytes do not fit in 63 bits.
[[nodiscard]] inline index checked_volume(std::span<index const> extents, std::size_t element_bytes,
                                          std::string_view subject) {
  index product = 1;
  bool overflow = false;
  bool empty = false;
  for (index const extent : extents) {
    require(extent >= 0, subject, ": negative extent ", extent, " in its shape");
    empty = empty || extent == 0;
    overflow = __builtin_mul_overflow(product, extent, &product) || overflow;
  }
  index bytes = 0;
  overflow = __builtin_mul_overflow(product, static_cast<index>(element_bytes), &bytes) || overflow;
  require(empty || !overflow, subject, ": its shape has more elements than 64 bits can address");
  return empty ? 0 : product;
}

/// Extents as text: "[2, 3]".
[[nodiscard]] inline std::string shape_text(std::span<index const> extents) {
  std::string out = "[";
  for (std::size_t i = 0; i < extents.size(); ++i) out += concat(i == 0 ? "" : ", ", extents[i]);
  return out + "]";
}

}  // namespace parallel::checkpoint
