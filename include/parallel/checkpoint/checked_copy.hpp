// checked_copy: a file of a checkpoint, copied to another disk and compared with its checksums on
// the way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/checkpoint/manifest.hpp>

namespace parallel::checkpoint {

/// A slice of this tensor.
struct named_slice {
  std::string_view tensor;
  slice_record const* slice;
};

/// The slices of each file, as they lie there; valid while `set` is.
[[nodiscard]] inline std::map<std::string, std::vector<named_slice>> slices_by_file(
    slice_set const& set) {
  std::map<std::string, std::vector<named_slice>> out;
  for (auto const& [file, bytes] : set.files) out[file];
  for (auto const& [name, tensor] : set.tensors)
    for (auto const& slice : tensor.slices)
      if (slice.bytes > 0) out[slice.file].push_back({name, &slice});
  for (auto& [file, slices] : out)
    std::ranges::sort(slices, {}, [](named_slice const& one) { return one.slice->offset; });
  return out;
}

/// Copies `from`, which has `bytes` bytes and in them `slices` (slices_by_file), to `to`, which is
/// not there yet, and flushes it. Throws when a slice is damaged or the file cannot be read or
/// written, and leaves nothing then. Cost: reads and hashes every byte once, past what the system
/// remembers of the file, and holds 1 MiB.
inline void copy_checked(std::filesystem::path const& from, std::filesystem::path const& to,
                         std::uint64_t bytes, std::span<named_slice const> slices) {
  constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
  input_file const in(from);
  require_bytes(from, in.size(), bytes);
  in.forget_cached();
  output_file const out(to, output_file::existing::refuse);
  try {
    std::vector<std::byte> buffer(std::min(piece_bytes, bytes));
    auto const copy = [&](std::uint64_t begin, std::uint64_t end, std::string_view what) {
      running_checksum sum;
      for (std::uint64_t at = begin; at < end;) {
        auto const piece = std::span(buffer).first(std::min<std::size_t>(end - at, buffer.size()));
        in.read(at, piece, what);
        out.write(at, piece);
        sum.add(piece);
        at += piece.size();
      }
      return sum.value();
    };
    std::uint64_t at = 0;
    for (auto const& [tensor, slice] : slices) {
      require(
          at <= slice->offset && slice->offset <= bytes && slice->bytes <= bytes - slice->offset,
          in.name(), ": elements of tensor \"", tensor, "\" overlap others or the end of the file");
      copy(at, slice->offset, "the header");
      at = slice->offset + slice->bytes;
      require_checksum(in.name(), tensor, *slice, copy(slice->offset, at, tensor));
    }
    copy(at, bytes, "the end of the file");
    out.sync();
  } catch (...) {
    files::remove_tree(to);
    throw;
  }
}

}  // namespace parallel::checkpoint
