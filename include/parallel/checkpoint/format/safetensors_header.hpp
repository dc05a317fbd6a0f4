// The safetensors format: 8 bytes (little-endian) header length, a JSON header, the tensors' bytes.
//
// Format: https://github.com/huggingface/safetensors#format. The header maps each name to dtype,
// shape and [begin, end) in the bytes after the header; tensors fill these bytes without holes or
// overlaps; "__metadata__" maps strings to strings. This file parses and prints that JSON; the
// whole header is checked before any of it is used.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <parallel/checkpoint/format/element_type.hpp>
#include <parallel/checkpoint/format/json.hpp>

namespace parallel::checkpoint {

/// The longest header that is read or written, in bytes (the format's own limit).
inline constexpr std::uint64_t max_safetensors_header = 100'000'000;

/// A tensor of a file: its description, and the range of its bytes after the header.
struct tensor_entry {
  std::string name = {};
  std::string type_name = {};  ///< as in the file: "F32", also for unknown types
  element_type type = element_type::unknown;
  std::vector<index> extents = {};
  std::uint64_t begin = 0;  ///< bytes after the header
  std::uint64_t end = 0;

  /// Elements; 1 for a scalar.
  [[nodiscard]] index size() const {
    std::size_t product = 1;  // unsigned: [2^40, 2^40, 0] is legal
    for (index const extent : extents) product *= static_cast<std::size_t>(extent);
    return static_cast<index>(product);
  }
  friend bool operator==(tensor_entry const&, tensor_entry const&) = default;
};

/// Free text in a file: "format" -> "pt".
using tensor_metadata = std::map<std::string, std::string>;

/// A parsed header; tensors in the order of their bytes.
struct safetensors_header {
  std::vector<tensor_entry> tensors = {};
  tensor_metadata metadata = {};
};

namespace detail {

/// Parses one entry of the header and checks everything but its position among the others.
[[nodiscard]] inline tensor_entry parse_tensor_entry(std::string const& name,
                                                     nlohmann::json const& value,
                                                     std::uint64_t data_bytes,
                                                     std::string_view file) {
  auto const location = concat(file, ": header, tensor \"", name, "\"");
  tensor_entry entry{.name = name, .type_name = string_member(value, "dtype", location)};
  entry.type = element_type_named(entry.type_name);
  require(!entry.type_name.empty() && entry.type_name.size() <= 32, location, ": dtype \"",
          entry.type_name.substr(0, 64), "\" is not the name of an element type");
  entry.extents = shape_member(value, "shape", location);
  auto const& offsets = array_member(value, "data_offsets", location);
  require(offsets.size() == 2, location, ": data_offsets must be [begin, end], has ",
          offsets.size(), " members");
  entry.begin = static_cast<std::uint64_t>(natural(offsets[0], "data_offsets", location));
  entry.end = static_cast<std::uint64_t>(natural(offsets[1], "data_offsets", location));
  require(entry.begin <= entry.end && entry.end <= data_bytes, location, ": data_offsets [",
          entry.begin, ", ", entry.end, "] do not lie within the ", data_bytes,
          " bytes after the header; the file is cut short or damaged");
  if (entry.type != element_type::unknown) {
    index const elements = checked_volume(entry.extents, size_of(entry.type), location);
    auto const expected = static_cast<std::uint64_t>(elements) * size_of(entry.type);
    require(entry.end - entry.begin == expected, location, ": shape ", shape_text(entry.extents),
            " of ", entry.type_name, " needs ", expected, " bytes, data_offsets give ",
            entry.end - entry.begin);
  } else {
    static_cast<void>(checked_volume(entry.extents, 1, location));
  }
  return entry;
}

}  // namespace detail

/// Parses and checks a header, which `data_bytes` bytes follow. Messages begin with `file`.
[[nodiscard]] inline safetensors_header parse_safetensors_header(std::string_view text,
                                                                 std::uint64_t data_bytes,
                                                                 std::string_view file) {
  auto const location = concat(file, ": header");
  require(!text.empty() && text.front() == '{', location, ": must begin with '{'");
  safetensors_header parsed;
  parse_json_in_parts(text, location, {}, [&](std::string const& name, nlohmann::json&& value) {
    if (name != "__metadata__") {
      parsed.tensors.push_back(detail::parse_tensor_entry(name, value, data_bytes, file));
      return;
    }
    require(value.is_object() || value.is_null(), location, ": \"__metadata__\" must be an object");
    for (auto const& [key, content] : value.items()) {
      require(content.is_string(), location, ": \"__metadata__\": \"", key, "\" must be a string");
      parsed.metadata.emplace(key, content.get<std::string>());
    }
  });
  std::sort(parsed.tensors.begin(), parsed.tensors.end(), [](auto const& a, auto const& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t position = 0;
  for (auto const& entry : parsed.tensors) {
    require(entry.begin == position, location, ": tensor \"", entry.name, "\" begins at byte ",
            entry.begin, ", the one before it ends at ", position,
            ": tensors must follow each other without holes or overlaps");
    position = entry.end;
  }
  require(position == data_bytes, location, ": its tensors end at byte ", position,
          " after the header, the file at ", data_bytes);
  return parsed;
}

/// One member of the header's object: "name":{...}.
[[nodiscard]] inline std::string format_tensor_entry(tensor_entry const& entry,
                                                     std::string_view file) {
  nlohmann::ordered_json value;
  value["dtype"] = entry.type_name;
  value["shape"] = entry.extents;
  value["data_offsets"] = {entry.begin, entry.end};
  return dump_json(entry.name, concat(file, ": a tensor's name")) + ":" + value.dump();
}

/// The JSON of a header, without padding.
[[nodiscard]] inline std::string format_safetensors_header(safetensors_header const& header,
                                                           std::string_view file) {
  std::string out;
  if (!header.metadata.empty())
    out = "\"__metadata__\":" + dump_json(header.metadata, concat(file, ": metadata"));
  for (auto const& entry : header.tensors)
    out += (out.empty() ? "" : ",") + format_tensor_entry(entry, file);
  return "{" + out + "}";
}

/// The 8 bytes of length and the header, padded with spaces: to `total` bytes, or, when that is 0,
/// to a multiple of 8 so that the tensors are aligned. Throws when it does not fit.
[[nodiscard]] inline std::string pack_safetensors_header(std::string text, std::uint64_t total,
                                                         std::string_view file) {
  auto const padded = total != 0 ? total - 8 : (text.size() + 7) / 8 * 8;
  require(text.size() <= padded && padded <= max_safetensors_header, file, ": a header of ",
          text.size(), " bytes is too long; write fewer tensors a file");
  text.resize(static_cast<std::size_t>(padded), ' ');
  std::string out;
  for (unsigned i = 0; i < 8; ++i) out += static_cast<char>((padded >> (8 * i)) & 0xffU);
  return out + text;
}

}  // namespace parallel::checkpoint
