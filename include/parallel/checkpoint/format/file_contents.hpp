// file_contents: what a file of a checkpoint holds, in the order of its bytes.
//
// Slices are recorded by tensor, as they are read; checks and copies of a checkpoint go file by
// file, from the first byte to the last.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/checkpoint/format/slice.hpp>
#include <parallel/core/hexadecimal.hpp>

namespace parallel::checkpoint {

/// A slice and the name of its tensor.
struct named_slice {
  std::string_view tensor;
  slice_record const* slice;
};

/// The slices that a file holds. Valid while the slice set exists.
struct file_contents {
  std::uint64_t bytes = 0;              ///< of the whole file
  std::uint64_t header_bytes = 0;       ///< before the first slice
  std::optional<std::uint64_t> header;  ///< checksum of the header bytes, if it is recorded
  std::vector<named_slice> slices;      ///< the slices that have bytes
};

/// By name, what each file of `set` holds.
[[nodiscard]] inline std::map<std::string, file_contents> contents_by_file(slice_set const& set) {
  std::map<std::string, file_contents> out;
  for (auto const& [name, bytes] : set.files) out[name].bytes = bytes;
  for (auto const& [name, sum] : set.headers) out[name].header = sum;
  for (auto const& [name, tensor] : set.tensors)
    for (auto const& slice : tensor.slices)
      if (slice.bytes > 0) out[slice.file].slices.push_back({name, &slice});
  for (auto& [name, contents] : out) {
    auto& slices = contents.slices;
    std::ranges::sort(slices, {}, [](auto const& named) { return named.slice->offset; });
    contents.header_bytes = slices.empty() ? contents.bytes : slices.front().slice->offset;
  }
  return out;
}

/// Throws unless the bytes before the first slice, which were read from `file`, have the checksum
/// that is recorded, if one is.
inline void require_header(std::string_view file, file_contents const& contents,
                           std::uint64_t found) {
  require(!contents.header || found == *contents.header, file, ": its header (the first ",
          contents.header_bytes, " bytes) is damaged: its checksum is ", hexadecimal(found),
          ", the manifest says ", hexadecimal(contents.header.value_or(0)),
          "; use another checkpoint");
}

}  // namespace parallel::checkpoint
