// slice_record: some of a tensor's elements, and the location of their bytes.
//
// A checkpoint is a set of named slices. A slice is [begin, end) of the tensor's elements in
// row-major order, or the same columns of some of its rows, whatever unit, shard or stage it
// belonged to; a tensor is complete when its slices tile it exactly (tiling.hpp). So any layout can
// be read into any other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/checkpoint/format/element_type.hpp>
#include <parallel/checkpoint/format/hash.hpp>
#include <parallel/checkpoint/format/json.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace parallel::checkpoint {

/// Elements [begin, end) of a tensor, in a file of the checkpoint's folder. With a `run` only some
/// of them: `run` elements from `begin` on, and again after every `stride` (a row), up to `end`.
struct slice_record {
  index begin = 0;
  index end = 0;
  std::string file;
  std::uint64_t offset = 0;  ///< of the first byte in the file
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  ///< XXH3 of the bytes
  index run = 0;               ///< 0: all elements
  index stride = 0;

  /// The number of runs, and of elements.
  [[nodiscard]] index rows() const { return run == 0 ? 1 : (end - begin - run) / stride + 1; }
  [[nodiscard]] index count() const { return run == 0 ? end - begin : rows() * run; }
  friend bool operator==(slice_record const&, slice_record const&) = default;
};

/// A tensor's type and shape, and the slices in which it is stored.
struct sliced_tensor {
  element_type type = element_type::f32;
  std::vector<index> extents;
  std::vector<slice_record> slices;

  /// Elements; 1 for a scalar.
  [[nodiscard]] index size() const { return checked_volume(extents, size_of(type), "tensor"); }
};

/// A set of named slices, and the sizes of the files that hold them.
struct slice_set {
  std::map<std::string, sliced_tensor> tensors;
  std::map<std::string, std::uint64_t> files;  ///< name -> bytes
  std::map<std::string, std::uint64_t>
      headers;  ///< name -> XXH3 of the bytes before its first slice
};

/// Throws unless the bytes of a slice of `tensor`, which were read from `file`, have the checksum
/// of the slice's record.
inline void require_checksum(std::string_view file, std::string_view tensor,
                             slice_record const& slice, std::uint64_t found) {
  require(found == slice.checksum, file, ": elements ", slice.begin, " to ", slice.end,
          " of tensor \"", tensor, "\" (", slice.bytes, " bytes at ", slice.offset,
          ") are damaged: their checksum is ", hexadecimal(found), ", the manifest says ",
          hexadecimal(slice.checksum), "; use another checkpoint");
}

/// Whether a tensor may have this name: 1 to 1024 bytes without control characters or '@', which
/// separates names from ranges inside the files.
[[nodiscard]] inline bool is_tensor_name(std::string_view name) {
  return !name.empty() && name.size() <= 1024 &&
         std::none_of(name.begin(), name.end(), [](char character) {
           return character == '@' || static_cast<unsigned char>(character) < 0x20;
         });
}

namespace detail {

[[nodiscard]] inline std::uint64_t parse_checksum(std::string const& text,
                                                  std::string_view location) {
  auto const value = parse_hexadecimal(text);
  require(value.has_value(), location, ": a checksum must be 16 hexadecimal digits");
  return *value;
}

[[nodiscard]] inline slice_record parse_slice(nlohmann::json const& json,
                                              std::string_view location) {
  slice_record out;
  out.begin = natural_member(json, "begin", location);
  out.end = natural_member(json, "end", location);
  out.file = string_member(json, "file", location);
  out.offset = static_cast<std::uint64_t>(natural_member(json, "offset", location));
  out.bytes = static_cast<std::uint64_t>(natural_member(json, "bytes", location));
  out.checksum = parse_checksum(string_member(json, "xxh3", location), location);
  if (json.contains("run")) {
    out.run = natural_member(json, "run", location);
    out.stride = natural_member(json, "stride", location);
    require(out.run > 0 && out.run <= out.stride, location, ": a slice's run of ", out.run,
            " elements must be at least 1 and at most its stride of ", out.stride);
  }
  return out;
}

}  // namespace detail

/// Adds the tensors and files that `json` ("files", "tensors") describes. Throws on invalid fields,
/// and on tensors that differ in type or shape from those already in `set`.
inline void add_slices(slice_set& set, nlohmann::json const& json, std::string_view location) {
  for (auto const& file : array_member(json, "files", location)) {
    auto const& name = string_member(file, "name", location);
    require(is_plain_name(name), location, ": file \"", name, "\" is not a plain file name");
    auto const bytes = static_cast<std::uint64_t>(natural_member(file, "bytes", location));
    require(set.files.emplace(name, bytes).second, location, ": file ", name, " is named twice");
    if (file.contains("header"))  // files of earlier programs have none
      set.headers[name] = detail::parse_checksum(string_member(file, "header", location), location);
  }
  for (auto const& tensor : array_member(json, "tensors", location)) {
    auto const& name = string_member(tensor, "name", location);
    require(is_tensor_name(name), location, ": \"", name, "\" is not a name for a tensor");
    auto const tensor_location = concat(location, ": tensor \"", name, "\"");
    auto const& type_name = string_member(tensor, "dtype", tensor_location);
    auto const type = element_type_named(type_name);
    require(type != element_type::unknown, tensor_location, ": unknown element type ", type_name);
    auto const extents = shape_member(tensor, "shape", tensor_location);
    static_cast<void>(checked_volume(extents, size_of(type), tensor_location));
    auto& known = set.tensors.try_emplace(name, sliced_tensor{type, extents, {}}).first->second;
    require(known.type == type && known.extents == extents, tensor_location, ": is ",
            to_string(type), " ", shape_text(extents), " in one place and ", to_string(known.type),
            " ", shape_text(known.extents), " in another");
    for (auto const& slice : array_member(tensor, "slices", tensor_location))
      known.slices.push_back(detail::parse_slice(slice, tensor_location));
  }
}

/// The set as the members `"files": [...], "tensors": [...]` of a JSON object, one line a tensor.
[[nodiscard]] inline std::string format_slices(slice_set const& set, std::string_view location) {
  using nlohmann::ordered_json;
  std::string text = " \"files\": [";
  char const* separator = "\n  ";
  for (auto const& [name, bytes] : set.files) {
    ordered_json json({{"name", name}, {"bytes", bytes}});
    if (auto const sum = set.headers.find(name); sum != set.headers.end())
      json["header"] = hexadecimal(sum->second);
    text += separator + json.dump();
    separator = ",\n  ";
  }
  text += "],\n \"tensors\": [";
  separator = "\n  ";
  for (auto const& [name, tensor] : set.tensors) {
    ordered_json json;
    json["name"] = name;
    json["dtype"] = to_string(tensor.type);
    json["shape"] = tensor.extents;
    json["slices"] = ordered_json::array();
    for (auto const& slice : tensor.slices) {
      ordered_json record{{"begin", slice.begin}, {"end", slice.end},
                          {"file", slice.file},   {"offset", slice.offset},
                          {"bytes", slice.bytes}, {"xxh3", hexadecimal(slice.checksum)}};
      if (slice.run > 0) {
        record["run"] = slice.run;
        record["stride"] = slice.stride;
      }
      json["slices"].push_back(std::move(record));
    }
    try {
      text += separator + json.dump();
    } catch (nlohmann::json::exception const& problem) {
      fail(location, ": cannot be written as JSON: ", problem.what());
    }
    separator = ",\n  ";
  }
  return text + "]";
}

}  // namespace parallel::checkpoint
