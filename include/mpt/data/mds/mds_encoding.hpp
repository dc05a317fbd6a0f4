// The meaning of the bytes of one column of an MDS sample (mosaicml-streaming, format version 2).
//
// Scalars are raw little-endian values; str and json are UTF-8. An ndarray begins with a header
// that holds everything that its name ("ndarray", "ndarray:int32", "ndarray:int32:2048") does not
// say: a dtype code byte unless the name has the dtype, then a shape byte (ndim << 2 | log2 of the
// width of a dimension) and the dimensions unless the name has the shape too. Pickles are never
// decoded.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>

namespace mpt::data {

static_assert(std::endian::native == std::endian::little, "MDS files are little-endian");

namespace detail {

/// Reads a little-endian number at any alignment.
template <class Number>
[[nodiscard]] Number load(char const* source) {
  Number value;
  std::memcpy(&value, source, sizeof value);
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
[[nodiscard]] float half_to_float(std::uint16_t bits);

}  // namespace detail

/// The size of one value in bytes.
[[nodiscard]] constexpr std::size_t size_of(mds_type type) {
  return static_cast<std::size_t>(type) / 8;
}

/// The type of this name in an index.json.
[[nodiscard]] constexpr std::optional<mds_type> mds_type_named(std::string_view name) {
  for (auto const& known : detail::mds_types)
    if (known.name == name) return known.type;
  return std::nullopt;
}

/// The type's name in an index.json.
[[nodiscard]] constexpr std::string_view to_string(mds_type type) {
  for (auto const& known : detail::mds_types)
    if (known.type == type) return known.name;
  return "?";
}

/// Calls `use(T{})` with the C++ type of `type`; float16 is passed as its bits in std::uint16_t.
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
    bool const real = to_string(type).starts_with("float");
    parallel::require(!real || std::is_floating_point_v<Number>, "an array of ", to_string(type),
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
                            " of an array of ", to_string(type),
                            " does not fit the type asked for");
        out[i] = static_cast<Number>(value);
      }
    });
    return out;
  }
};

/// One column's encoding, parsed from its name in the index.
struct mds_encoding {
  enum class kind { bytes, text, scalar, array, opaque };

  kind value_kind = kind::opaque;
  std::string name;                          ///< as in the index
  std::optional<mds_type> type;              ///< scalar: always; array: when in the name
  std::vector<std::uint64_t> shape;          ///< array: when in the name, else empty
  std::optional<std::uint64_t> fixed_bytes;  ///< size of every value, when the name fixes it

  /// Parses "ndarray:uint8:3,32,32", "str", "int64", ... Throws for a name unknown to streaming.
  [[nodiscard]] static mds_encoding parse(std::string_view name);

  /// The array in `bytes`. Checks codes, shape and length; error messages begin with `location`.
  [[nodiscard]] mds_array decode_array(std::string_view bytes, std::string_view location) const;

  /// The scalar in `bytes` as Number. Throws for an integer that does not fit.
  template <class Number>
  [[nodiscard]] Number decode_scalar(std::string_view bytes, std::string_view location) const {
    parallel::require(value_kind == kind::scalar, location, ": encoding '", name,
                      "' is not a scalar");
    parallel::require(bytes.size() == size_of(*type), location, ": a value of '", name, "' needs ",
                      size_of(*type), " bytes, found ", bytes.size());
    return mds_array{*type, {1}, bytes}.to<Number>()[0];
  }

  /// Appends `values` with the header of this encoding. The product of `dims` must be the number of
  /// values.
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

/// The number of elements of a shape; nullopt if the shape has an empty dimension or more than
/// `limit` elements.
[[nodiscard]] std::optional<std::uint64_t> checked_volume(std::span<std::uint64_t const> shape,
                                                          std::uint64_t limit);

}  // namespace detail

template <class Number>
void mds_encoding::encode_array(std::string& out, std::span<Number const> values,
                                std::span<std::uint64_t const> dims) const {
  constexpr auto stored = detail::mds_type_of<Number>();
  parallel::require(value_kind == kind::array, "encoding '", name, "' is not an array");
  parallel::require(!type || *type == stored, "encoding '", name, "' cannot hold values of ",
                    to_string(stored));
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
