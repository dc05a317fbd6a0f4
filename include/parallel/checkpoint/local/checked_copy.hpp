// checked_copy: copies a file of a checkpoint to another disk and compares it with its checksums on
// the way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <parallel/checkpoint/format/file_contents.hpp>
#include <parallel/checkpoint/format/manifest.hpp>

namespace parallel::checkpoint {

/// The source of a copy is damaged or cannot be read.
class unusable_source : public error {
 public:
  using error::error;
};

/// The system does not allow the source to be read, which may be temporary.
class unreadable_source : public unusable_source {
 public:
  using unusable_source::unusable_source;
};

namespace detail {

/// `writing`: whether an error would come from writing `to`.
inline void copy_checked(std::filesystem::path const& from, std::filesystem::path const& to,
                         file_contents const& contents, bool& writing) {
  constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;
  auto const bytes = contents.bytes;
  input_file const in(from);
  require_bytes(from, in.size(), bytes);
  in.forget_cached();
  auto const write = [&](auto const& work) {
    writing = true;
    work();
    writing = false;
  };
  std::optional<output_file> target_file;
  write([&] { target_file.emplace(to, output_file::existing::refuse); });
  try {
    std::vector<std::byte> buffer(std::min(piece_bytes, bytes));
    auto const copy = [&](std::uint64_t begin, std::uint64_t end, std::string_view part_name) {
      running_checksum sum;
      for (std::uint64_t position = begin; position < end;) {
        auto const piece =
            std::span(buffer).first(std::min<std::size_t>(end - position, buffer.size()));
        in.read(position, piece, part_name);
        write([&] { target_file->write(position, piece); });
        sum.add(piece);
        position += piece.size();
      }
      return sum.value();
    };
    std::uint64_t position = std::min(contents.header_bytes, bytes);
    require_header(in.name(), contents, copy(0, position, "the header"));
    for (auto const& [tensor, slice] : contents.slices) {
      require(position <= slice->offset && slice->offset <= bytes &&
                  slice->bytes <= bytes - slice->offset,
              in.name(), ": elements of tensor \"", tensor,
              "\" overlap others or the end of the file");
      copy(position, slice->offset, "what is between slices");
      position = slice->offset + slice->bytes;
      require_checksum(in.name(), tensor, *slice, copy(slice->offset, position, tensor));
    }
    copy(position, bytes, "the end of the file");
    write([&] { target_file->sync(); });
  } catch (...) {
    files::remove_tree(to);
    throw;
  }
}

}  // namespace detail

/// Copies `from`, which holds `contents`, to `to`, which does not exist yet, and flushes it. Throws
/// unusable_source when its header or a slice is damaged or the file is missing, unreadable_source
/// when the system does not allow it to be read, another error when `to` cannot be written, and
/// then leaves nothing behind. Cost: reads and hashes every byte once, bypassing the system's
/// cache, and holds 1 MiB.
inline void copy_checked(std::filesystem::path const& from, std::filesystem::path const& to,
                         file_contents const& contents) {
  bool writing = false;
  try {
    detail::copy_checked(from, to, contents, writing);
  } catch (error const& problem) {
    if (writing) throw;
    if (is_system_error(problem)) throw unreadable_source(problem.what());
    throw unusable_source(problem.what());
  }
}

}  // namespace parallel::checkpoint
