#include <mpt/data/mds/mds_encoding.hpp>

#include <charconv>
#include <system_error>

namespace mpt::data::detail {

float half_to_float(std::uint16_t bits) {
  auto const exponent = static_cast<std::uint32_t>(bits >> 10) & 31U;
  auto const mantissa = static_cast<std::uint32_t>(bits) & 1023U;
  auto const sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  auto const tiny = static_cast<float>(mantissa) * 0x1p-24F;
  return sign == 0 ? tiny : -tiny;
}

std::optional<std::uint64_t> checked_volume(std::span<std::uint64_t const> shape,
                                            std::uint64_t limit) {
  std::uint64_t product = 1;
  for (auto const extent : shape) {
    if (extent == 0 || extent > limit / product) return std::nullopt;
    product *= extent;
  }
  return product;
}

}  // namespace mpt::data::detail

namespace mpt::data {

mds_encoding mds_encoding::parse(std::string_view name) {
  mds_encoding out;
  out.name = name;
  if (name == "bytes") {
    out.value_kind = kind::bytes;
  } else if (name == "str" || name == "json" || name == "str_int" || name == "str_float" ||
             name == "str_decimal") {
    out.value_kind = kind::text;
  } else if (auto const scalar = name == "int" ? mds_type::int64 : mds_type_named(name)) {
    out.value_kind = kind::scalar;
    out.type = scalar;
    out.fixed_bytes = size_of(*scalar);
  } else if (name == "ndarray" || name.starts_with("ndarray:")) {
    out.value_kind = kind::array;
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
    bool is_known = false;
    for (auto const candidate : opaque) is_known = is_known || candidate == name;
    parallel::require(is_known, "unknown MDS encoding '", name,
                      "'; known are bytes, str, int, ndarray[:dtype[:shape]], int8..64, uint8..64, "
                      "float16..64, json, str_int, str_float, str_decimal and images");
  }
  return out;
}

mds_array mds_encoding::decode_array(std::string_view bytes, std::string_view location) const {
  parallel::require(value_kind == kind::array, location, ": encoding '", name, "' is not an array");
  std::size_t offset = 0;
  auto const next_byte = [&](std::string_view part_name) {
    parallel::require(offset < bytes.size(), location, ": array ends before its ", part_name);
    return static_cast<std::uint8_t>(bytes[offset++]);
  };
  mds_array out;
  if (type) {
    out.type = *type;
  } else {
    auto const code = next_byte("dtype code");
    out.type = static_cast<mds_type>(code);
    parallel::require(to_string(out.type) != "?", location, ": unknown dtype code ", code);
  }
  if (shape.empty()) {
    auto const code = next_byte("shape code");
    std::size_t const dims = code >> 2;
    std::size_t const width = std::size_t{1} << (code & 3U);
    parallel::require(dims > 0 && dims * width <= bytes.size() - offset, location,
                      ": array header asks for ", dims, " dimensions of ", width, " bytes, but ",
                      bytes.size() - offset, " bytes are left");
    for (std::size_t i = 0; i < dims; ++i, offset += width) {
      std::uint64_t extent = 0;
      std::memcpy(&extent, bytes.data() + offset, width);
      out.shape.push_back(extent);
    }
  } else {
    out.shape = shape;
  }
  out.values = bytes.substr(offset);
  auto const volume = detail::checked_volume(out.shape, out.values.size());
  parallel::require(volume && *volume * size_of(out.type) == out.values.size(), location,
                    ": array shape does not match its ", out.values.size(), " bytes of ",
                    to_string(out.type));
  return out;
}

}  // namespace mpt::data
