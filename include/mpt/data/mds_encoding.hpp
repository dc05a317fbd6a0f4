// What the bytes of one column of an MDS sample mean (mosaicml-streaming, format version 2).
//
// Scalars are raw little-endian values; str and json are UTF-8; an ndarray carries in front of its
// values whatever its name leaves open: a dtype code byte unless the dtype is in the name, then a
// shape byte (ndim << 2 | log2 of the width of a dimension) and the dimensions unless the shape is
// in the name too ("ndarray", "ndarray:int32", "ndarray:int32:2048"). Pickles are never decoded.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::data {

static_assert(std::endian::native == std::endian::little, "MDS files are little-endian");

namespace detail {

/// Little-endian integers at any alignment.
template <class Number>
[[nodiscard]] Number load(char const* from) {
  Number value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class Number>
void store(std::string& out, Number value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

}  // namespace detail

/// Element types of scalars and arrays; the values are streaming's dtype codes.
enum class mds_type : std::uint8_t {
  uint8 = 8,
  int8 = 9,
  uint16 = 16,
  int16 = 17,
  float16 = 18,
  uint32 = 32,
  int32 = 33,
  float32 = 34,
  uint64 = 64,
  int64 = 65,
  float64 = 66,
};

namespace detail {

struct named_mds_type {
  std::string_view name;
  mds_type type;
};

inline constexpr std::array<named_mds_type, 11> mds_types{{{"uint8", mds_type::uint8},
                                                           {"int8", mds_type::int8},
                                                           {"uint16", mds_type::uint16},
                                                           {"int16", mds_type::int16},
                                                           {"float16", mds_type::float16},
                                                           {"uint32", mds_type::uint32},
                                                           {"int32", mds_type::int32},
                                                           {"float32", mds_type::float32},
                                                           {"uint64", mds_type::uint64},
                                                           {"int64", mds_type::int64},
                                                           {"float64", mds_type::float64}}};

/// IEEE binary16 to float.
[[nodiscard]] inline float half_to_float(std::uint16_t bits) {
  auto const exponent = static_cast<std::uint32_t>(bits >> 10) & 31U;
  auto const mantissa = static_cast<std::uint32_t>(bits) & 1023U;
  auto const sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  auto const tiny = static_cast<float>(mantissa) * 0x1p-24F;
  return sign == 0 ? tiny : -tiny;
}

}  // namespace detail

/// Bytes of one value.
[[nodiscard]] constexpr std::size_t size_of(mds_type type) {
  return static_cast<std::size_t>(type) / 8;
}

[[nodiscard]] constexpr std::optional<mds_type> mds_type_named(std::string_view name) {
  for (auto const& known : detail::mds_types)
    if (known.name == name) return known.type;
  return std::nullopt;
}

[[nodiscard]] constexpr std::string_view name_of(mds_type type) {
  for (auto const& known : detail::mds_types)
    if (known.type == type) return known.name;
  return "?";
}

/// Calls `use(T{})` with the C++ type of `type`; float16 comes as std::uint16_t bits.
template <class Use>
decltype(auto) visit_mds_type(mds_type type, Use&& use) {
  switch (type) {
    case mds_type::uint8: return use(std::uint8_t{});
    case mds_type::int8: return use(std::int8_t{});
    case mds_type::uint16:
    case mds_type::float16: return use(std::uint16_t{});
    case mds_type::int16: return use(std::int16_t{});
    case mds_type::uint32: return use(std::uint32_t{});
    case mds_type::int32: return use(std::int32_t{});
    case mds_type::float32: return use(float{});
    case mds_type::uint64: return use(std::uint64_t{});
    case mds_type::int64: return use(std::int64_t{});
    default: return use(double{});
  }
}

/// An array inside a sample: type, shape and raw values (a view; the sample owns the bytes).
struct mds_array {
  mds_type type = mds_type::uint8;
  std::vector<std::uint64_t> shape;
  std::string_view values;

  [[nodiscard]] std::size_t size() const { return values.size() / size_of(type); }

  /// All values converted to Number, row-major. Throws when an integer does not fit, and when real
  /// values are asked for as integers.
  template <class Number>
  [[nodiscard]] std::vector<Number> to() const {
    std::vector<Number> out(size());
    bool const real = name_of(type).starts_with("float");
    parallel::require(!real || std::is_floating_point_v<Number>, "an array of ", name_of(type),
                      " is not an array of integers");
    visit_mds_type(type, [&]<class Stored>(Stored) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        auto const value = detail::load<Stored>(values.data() + i * sizeof(Stored));
        if (type == mds_type::float16) {
          out[i] = static_cast<Number>(detail::half_to_float(static_cast<std::uint16_t>(value)));
          continue;
        }
        if constexpr (std::is_integral_v<Stored> && std::is_integral_v<Number>)
          parallel::require(std::in_range<Number>(value), "value ", value, " at position ", i,
                            " of an array of ", name_of(type), " does not fit the type asked for");
        out[i] = static_cast<Number>(value);
      }
    });
    return out;
  }
};

/// One column's encoding, parsed from its name in the index.
struct mds_encoding {
  enum class kind { bytes, text, scalar, array, opaque };

  kind what = kind::opaque;
  std::string name;                          ///< as it stands in the index
  std::optional<mds_type> type;              ///< scalar: always; array: when in the name
  std::vector<std::uint64_t> shape;          ///< array: when in the name, else empty
  std::optional<std::uint64_t> fixed_bytes;  ///< size of every value, when the name fixes it

  /// Parses "ndarray:uint8:3,32,32", "str", "int64", ... Throws for a name streaming does not have.
  [[nodiscard]] static mds_encoding parse(std::string_view name);

  /// The array in `bytes`. Checks codes, shape and length; throws with `where` in front.
  [[nodiscard]] mds_array decode_array(std::string_view bytes, std::string_view where) const;

  /// The scalar in `bytes` as Number (an integer that does not fit throws).
  template <class Number>
  [[nodiscard]] Number decode_scalar(std::string_view bytes, std::string_view where) const {
    parallel::require(what == kind::scalar, where, ": encoding '", name, "' is not a scalar");
    parallel::require(bytes.size() == size_of(*type), where, ": a value of '", name, "' needs ",
                      size_of(*type), " bytes, found ", bytes.size());
    return mds_array{*type, {1}, bytes}.to<Number>()[0];
  }

  /// Appends `values` with the header this encoding asks for. `dims` must multiply to their number.
  template <class Number>
  void encode_array(std::string& out, std::span<Number const> values,
                    std::span<std::uint64_t const> dims) const;
};

namespace detail {

template <class Number>
[[nodiscard]] constexpr mds_type mds_type_of() {
  constexpr bool is_signed = std::is_signed_v<Number>;
  auto const code = sizeof(Number) * 8 + (std::is_floating_point_v<Number> ? 2 : is_signed ? 1 : 0);
  return static_cast<mds_type>(code);
}

/// The number of elements of a shape whose array must fit in `limit` bytes; nullopt when it cannot.
[[nodiscard]] inline std::optional<std::uint64_t> checked_volume(
    std::span<std::uint64_t const> shape, std::uint64_t limit) {
  std::uint64_t product = 1;
  for (auto const extent : shape) {
    if (extent == 0 || extent > limit / product) return std::nullopt;
    product *= extent;
  }
  return product;
}

}  // namespace detail

inline mds_encoding mds_encoding::parse(std::string_view name) {
  mds_encoding out;
  out.name = name;
  if (name == "bytes") {
    out.what = kind::bytes;
  } else if (name == "str" || name == "json" || name == "str_int" || name == "str_float" ||
             name == "str_decimal") {
    out.what = kind::text;
  } else if (auto const scalar = name == "int" ? mds_type::int64 : mds_type_named(name)) {
    out.what = kind::scalar;
    out.type = scalar;
    out.fixed_bytes = size_of(*scalar);
  } else if (name == "ndarray" || name.starts_with("ndarray:")) {
    out.what = kind::array;
    auto rest = name.substr(std::min<std::size_t>(name.size(), 8));
    auto const colon = rest.find(':');
    if (!rest.empty()) {
      out.type = mds_type_named(rest.substr(0, colon));
      parallel::require(out.type.has_value(), "encoding '", name, "': unknown element type '",
                        rest.substr(0, colon), "'");
    }
    if (colon != std::string_view::npos) {
      for (rest.remove_prefix(colon + 1);;) {
        auto const comma = rest.find(',');
        auto const digits = rest.substr(0, comma);
        std::uint64_t extent = 0;
        auto const [end, status] =
            std::from_chars(digits.data(), digits.data() + digits.size(), extent);
        parallel::require(status == std::errc{} && end == digits.data() + digits.size() &&
                              extent > 0 && out.shape.size() < 63,
                          "encoding '", name, "': bad shape; expected positive sizes like 3,32,32");
        out.shape.push_back(extent);
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
      }
      auto const volume = detail::checked_volume(out.shape, std::uint64_t{1} << 32);
      parallel::require(volume.has_value(), "encoding '", name, "': shape is too large");
      out.fixed_bytes = *volume * size_of(*out.type);
    }
  } else {
    constexpr std::array<std::string_view, 9> opaque{"pil",        "jpeg",      "jpeg_array",
                                                     "jpegarray",  "png",       "list[pil]",
                                                     "list[jpeg]", "list[png]", "pkl"};
    bool known = false;
    for (auto const candidate : opaque) known = known || candidate == name;
    parallel::require(known, "unknown MDS encoding '", name,
                      "'; known are bytes, str, int, ndarray[:dtype[:shape]], int8..64, uint8..64, "
                      "float16..64, json, str_int, str_float, str_decimal and images");
  }
  return out;
}

inline mds_array mds_encoding::decode_array(std::string_view bytes, std::string_view where) const {
  parallel::require(what == kind::array, where, ": encoding '", name, "' is not an array");
  std::size_t at = 0;
  auto const byte = [&](std::string_view part) {
    parallel::require(at < bytes.size(), where, ": array ends before its ", part);
    return static_cast<std::uint8_t>(bytes[at++]);
  };
  mds_array out;
  if (type) {
    out.type = *type;
  } else {
    auto const code = byte("dtype code");
    out.type = static_cast<mds_type>(code);
    parallel::require(name_of(out.type) != "?", where, ": unknown dtype code ", code);
  }
  if (shape.empty()) {
    auto const code = byte("shape code");
    std::size_t const dims = code >> 2;
    std::size_t const width = std::size_t{1} << (code & 3U);
    parallel::require(dims > 0 && dims * width <= bytes.size() - at, where,
                      ": array header asks for ", dims, " dimensions of ", width, " bytes, but ",
                      bytes.size() - at, " bytes are left");
    for (std::size_t i = 0; i < dims; ++i, at += width) {
      std::uint64_t extent = 0;
      std::memcpy(&extent, bytes.data() + at, width);
      out.shape.push_back(extent);
    }
  } else {
    out.shape = shape;
  }
  out.values = bytes.substr(at);
  auto const volume = detail::checked_volume(out.shape, out.values.size());
  parallel::require(volume && *volume * size_of(out.type) == out.values.size(), where,
                    ": array shape does not match its ", out.values.size(), " bytes of ",
                    name_of(out.type));
  return out;
}

template <class Number>
void mds_encoding::encode_array(std::string& out, std::span<Number const> values,
                                std::span<std::uint64_t const> dims) const {
  constexpr auto stored = detail::mds_type_of<Number>();
  parallel::require(what == kind::array, "encoding '", name, "' is not an array");
  parallel::require(!type || *type == stored, "encoding '", name, "' cannot hold values of ",
                    name_of(stored));
  auto const volume = detail::checked_volume(dims, values.size());
  parallel::require(!dims.empty() && dims.size() < 64 && volume == values.size(), "an array of ",
                    values.size(), " values does not have the shape given (no empty dimension)");
  if (!type) detail::store(out, static_cast<std::uint8_t>(stored));
  if (shape.empty()) {
    std::uint64_t largest = 0;
    for (auto const extent : dims) largest = std::max(largest, extent);
    unsigned const code = largest < 0x100U     ? 0
                          : largest < 0x10000U ? 1
                          : largest >> 32 == 0 ? 2
                                               : 3;
    detail::store(out, static_cast<std::uint8_t>(dims.size() << 2 | code));
    for (auto const extent : dims) {
      char raw[8];
      std::memcpy(raw, &extent, 8);
      out.append(raw, std::size_t{1} << code);
    }
  } else {
    parallel::require(std::equal(dims.begin(), dims.end(), shape.begin(), shape.end()),
                      "an array does not have the shape that encoding '", name, "' fixes");
  }
  out.append(reinterpret_cast<char const*>(values.data()), values.size_bytes());
}

}  // namespace mpt::data
