// checked_copy: a file of a checkpoint, copied to another disk and compared with its checksums on
// the way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include <parallel/checkpoint/file_contents.hpp>
#include <parallel/checkpoint/manifest.hpp>

namespace parallel::checkpoint {

/// Copies `from`, which holds `contents`, to `to`, which is not there yet, and flushes it. Throws
/// when its header or a slice is damaged or the file cannot be read or written, and leaves nothing
/// then. Cost: reads and hashes every byte once, past what the system
/// remembers of the file, and holds 1 MiB.
inline void copy_checked(std::filesystem::path const& from, std::filesystem::path const& to,
                         file_contents const& contents) {
  constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
  auto const bytes = contents.bytes;
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
    std::uint64_t at = std::min(contents.header_bytes, bytes);
    require_header(in.name(), contents, copy(0, at, "the header"));
    for (auto const& [tensor, slice] : contents.slices) {
      require(
          at <= slice->offset && slice->offset <= bytes && slice->bytes <= bytes - slice->offset,
          in.name(), ": elements of tensor \"", tensor, "\" overlap others or the end of the file");
      copy(at, slice->offset, "what is between slices");
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
