// checkpoint_reader: reads any flat range of any tensor of a checkpoint, whatever layout wrote it.
//
// The constructor reads only the manifest: one rank can read its text and send it to the others,
// and each rank opens only the files that it needs. Reading a whole flat slice checks its checksum;
// a part of a slice cannot be checked. A program that resumes therefore calls `verify` first, each
// rank for its share. Several threads may read at the same time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/checkpoint/format/file_contents.hpp>
#include <parallel/checkpoint/format/manifest.hpp>
#include <parallel/checkpoint/format/safetensors.hpp>

namespace parallel::checkpoint {

/// A complete checkpoint, open for reading.
class checkpoint_reader {
 public:
  /// Opens a checkpoint's folder. Throws when its manifest is missing or damaged. Another file that
  /// is missing or has a wrong size is detected when it is read.
  explicit checkpoint_reader(std::filesystem::path const& folder)
      : checkpoint_reader(folder, read_manifest_text(folder)) {}

  /// Opens a checkpoint's folder whose manifest has been read already.
  checkpoint_reader(std::filesystem::path folder, std::string_view manifest_text)
      : folder_(std::move(folder)),
        manifest_(parse_manifest(manifest_text, (folder_ / manifest_name).native())) {}

  [[nodiscard]] std::filesystem::path const& folder() const { return folder_; }
  /// The state given to `commit`.
  [[nodiscard]] nlohmann::json const& state() const { return manifest_.state; }
  /// Type, shape and slices of all tensors, by name.
  [[nodiscard]] std::map<std::string, sliced_tensor> const& tensors() const {
    return manifest_.slices.tensors;
  }
  /// The files besides the manifest, and the bytes of each.
  [[nodiscard]] std::map<std::string, std::uint64_t> const& files() const {
    return manifest_.slices.files;
  }
  [[nodiscard]] bool contains(std::string const& tensor) const {
    return tensors().contains(tensor);
  }
  /// Type, shape and slices of one tensor. Throws if the checkpoint does not have it.
  [[nodiscard]] sliced_tensor const& at(std::string const& tensor) const {
    auto const found = tensors().find(tensor);
    require(found != tensors().end(), folder_.native(), ": has no tensor \"", tensor, "\"");
    return found->second;
  }

  /// Reads elements from `begin` on without conversion; `out` holds whole elements.
  void read_bytes(std::string const& tensor, index begin, std::span<std::byte> out) const {
    auto const width = size_of(at(tensor).type);
    require(out.size() % width == 0, folder_.native(), ": tensor \"", tensor, "\": ", out.size(),
            " bytes are not whole elements of ", to_string(at(tensor).type));
    stream_bytes(tensor, {begin, static_cast<index>(out.size() / width), 1, 0}, out);
  }

  /// Reads `out.size()` elements from `begin` on. They are converted when both types are real
  /// numbers; otherwise the types must agree.
  template <class T>
  void read(std::string const& tensor, index begin, std::span<T> out) const {
    read(tensor, {begin, static_cast<index>(out.size()), 1, 0}, out);
  }

  /// Reads `run` elements of a row, the first at `begin`, and then the same columns of the
  /// following rows until `out` is full. With run 0 it reads consecutive elements. It opens a file
  /// once for each slice, however many rows there are.
  template <class T>
  void read_block(std::string const& tensor, index begin, index run, std::span<T> out) const {
    if (run == 0) return read(tensor, begin, out);
    auto const count = static_cast<index>(out.size());
    auto const row = row_size(at(tensor));
    require(run > 0 && count % run == 0 && run <= row, folder_.native(), ": tensor \"", tensor,
            "\": ", count, " elements are not whole runs of ", run, " of rows of ", row);
    read(tensor, {begin, run, count / run, row}, out);
  }

  /// Reads every header and slice and compares its checksum. Returns a sentence for each damaged
  /// header or slice and for each missing file. Throws storage_error or access_error if the system
  /// cannot read a file; that is not evidence of damage. With several ranks, rank `share` of
  /// `shares` reads about the same number of bytes as every other rank, from few files. Cost: reads
  /// its share from the disk itself (not from the system's cache), in the order of the files.
  [[nodiscard]] std::vector<std::string> damage(index share = 0, index shares = 1) const {
    require(0 <= share && share < shares, folder_.native(), ": damage: share is ", share,
            ", but must be from 0 to ", shares - 1);
    std::vector<std::string> found;
    std::vector<std::byte> buffer(static_cast<std::size_t>(chunk_bytes));
    auto const record_damage = [&](auto const& checks) {
      try {
        checks();
      } catch (error const& problem) {
        if (is_system_error(problem)) throw;
        found.emplace_back(problem.what());
      }
    };
    for (auto const& part : file_parts(share, shares))
      record_damage([&] {
        auto const file = open(part.first);
        file.forget_cached();
        if (part.second.has_header)
          record_damage([&] { check_header(file, part.second.contents, buffer); });
        for (auto const& slice : part.second.contents.slices)
          record_damage([&] { check_slice(file, slice, buffer); });
      });
    return found;
  }

  /// Throws the first sentence of `damage`, if there is one.
  void verify(index share = 0, index shares = 1) const {
    if (auto const found = damage(share, shares); !found.empty()) fail(found.front());
  }

 private:
  static constexpr index chunk_bytes = index{1} << 20;

  /// `rows` runs of `run` elements; the first run begins at `begin`, each other one `stride`
  /// elements after the run before it.
  struct block {
    index begin, run, rows, stride;

    [[nodiscard]] index end() const { return begin + (rows - 1) * stride + run; }
  };

  template <class T>
  void read(std::string const& tensor, block const& elements, std::span<T> out) const {
    auto const type = at(tensor).type;
    if (type == element_type_of(dtype_of<T>))
      return stream_bytes(tensor, elements, std::as_writable_bytes(out));
    require(real_element<T> && is_real(type), folder_.native(), ": tensor \"", tensor, "\" is of ",
            to_string(type), ", which is not read as ", to_string(dtype_of<T>));
    if constexpr (real_element<T>) {
      std::vector<std::byte> buffer;
      stream(
          tensor, elements,
          [&](std::size_t, std::size_t bytes) {
            buffer.resize(bytes);
            return std::span(buffer);
          },
          [&](std::size_t offset, std::span<std::byte> bytes) {
            convert(type, bytes, out.subspan(offset, bytes.size() / size_of(type)));
          });
    }
  }

  void stream_bytes(std::string const& tensor, block const& elements,
                    std::span<std::byte> out) const {
    auto const width = size_of(at(tensor).type);
    stream(
        tensor, elements,
        [&](std::size_t offset, std::size_t bytes) { return out.subspan(offset * width, bytes); },
        [](std::size_t, std::span<std::byte>) {});
  }

  // Reads a block's elements slice by slice, in pieces that each lie in one slice. `offset` counts
  // the block's elements before the piece: destination(offset, bytes) returns the memory for the
  // piece, and finished(offset, memory) is called when the memory is filled.
  template <class Destination, class Finished>
  void stream(std::string const& name, block const& elements, Destination destination,
              Finished finished) const {
    auto const& tensor = at(name);
    auto const size = tensor.size();
    auto const count = elements.run * elements.rows;
    require(0 <= elements.begin && elements.begin <= size && count <= size &&
                (count == 0 || elements.end() <= size),
            folder_.native(), ": tensor \"", name, "\" has ", size, " elements; ", count, " from ",
            elements.begin, " on were asked for");
    if (count == 0) return;
    for (auto const& slice : tensor.slices) {
      if (slice.end <= elements.begin) continue;
      if (slice.begin >= elements.end()) break;  // slices are sorted
      std::optional<input_file> file;
      index const step = std::max<index>(1, elements.stride);
      for (index row =
               std::max<index>(0, (slice.begin - elements.begin - elements.run + step) / step);
           row < elements.rows && elements.begin + row * elements.stride < slice.end; ++row) {
        index const begin = elements.begin + row * elements.stride;
        auto const offset_of = [&](index element) {
          return static_cast<std::size_t>(row * elements.run + element - begin);
        };
        stream_run(
            name, slice, begin, begin + elements.run, file,
            [&](index first, std::size_t bytes) { return destination(offset_of(first), bytes); },
            [&](index first, std::span<std::byte> bytes) { finished(offset_of(first), bytes); });
      }
    }
  }

  // Reads the elements of [begin, end) that lie in the slice. Opens `file` if there are any.
  template <class Destination, class Finished>
  void stream_run(std::string const& name, slice_record const& slice, index begin, index end,
                  std::optional<input_file>& file, Destination destination,
                  Finished finished) const {
    auto const width = static_cast<index>(size_of(at(name).type));
    index const length = slice.run == 0 ? slice.end - slice.begin : slice.run;
    index const step = std::max<index>(1, slice.stride);
    index const skipped = std::max<index>(0, begin - slice.begin - length + 1);
    for (index row = slice.run == 0 ? 0 : (skipped + step - 1) / step; row < slice.rows(); ++row) {
      index const origin = slice.begin + row * slice.stride;
      if (origin >= end) break;
      index first = std::max(begin, origin);
      index const last = std::min(end, origin + length);
      if (first >= last) continue;
      bool const is_whole_slice = slice.run == 0 && last - first == length;
      if (!file) file.emplace(open(slice.file));
      running_checksum sum;
      while (first < last) {
        index const piece = std::min(last - first, chunk_bytes / width);
        auto const bytes = destination(first, static_cast<std::size_t>(piece * width));
        auto const offset = row * length + first - origin;
        file->read(slice.offset + static_cast<std::uint64_t>(offset * width), bytes, name);
        if (is_whole_slice) sum.add(bytes);
        finished(first, bytes);
        first += piece;
      }
      if (is_whole_slice) require_checksum(file->name(), name, slice, sum.value());
    }
  }

  [[nodiscard]] input_file open(std::string const& name) const {
    input_file file(folder_ / name);
    require_bytes(file.name(), file.size(), files().at(name));
    return file;
  }

  // The part of a file that one rank verifies: some of its slices, and its header if `has_header`.
  struct file_part {
    file_contents contents;
    bool has_header = false;
  };

  // The share of rank `share`: all bytes of the checkpoint are divided into `shares` equal ranges,
  // and the slices and headers that begin in range `share` belong to it.
  [[nodiscard]] std::map<std::string, file_part> file_parts(index share, index shares) const {
    auto const all_contents = contents_by_file(manifest_.slices);
    std::uint64_t total = 0;
    for (auto const& [name, contents] : all_contents) total += contents.bytes;
    auto const share_bytes = total / static_cast<std::uint64_t>(shares) + 1;
    auto const is_in_share = [&](std::uint64_t position) {
      return static_cast<index>(position / share_bytes) == share;
    };
    std::map<std::string, file_part> out;
    std::uint64_t file_position = 0;
    for (auto const& [name, contents] : all_contents) {
      file_part part{contents, is_in_share(file_position)};
      std::erase_if(part.contents.slices, [&](auto const& named) {
        return !is_in_share(file_position + named.slice->offset);
      });
      if (part.has_header || !part.contents.slices.empty()) out.emplace(name, std::move(part));
      file_position += contents.bytes;
    }
    return out;
  }

  // Reads `bytes` bytes of a file, the first at `begin`, and returns their checksum. `part_name` is
  // for errors.
  [[nodiscard]] static std::uint64_t checksum_of(input_file const& file, std::uint64_t begin,
                                                 std::uint64_t bytes, std::string_view part_name,
                                                 std::span<std::byte> buffer) {
    running_checksum sum;
    for (std::uint64_t position = 0; position < bytes;) {
      auto const piece = buffer.first(std::min<std::size_t>(bytes - position, buffer.size()));
      file.read(begin + position, piece, part_name);
      sum.add(piece);
      position += piece.size();
    }
    return sum.value();
  }

  static void check_header(input_file const& file, file_contents const& contents,
                           std::span<std::byte> buffer) {
    require_header(file.name(), contents,
                   checksum_of(file, 0, contents.header_bytes, "the header", buffer));
  }

  static void check_slice(input_file const& file, named_slice const& named,
                          std::span<std::byte> buffer) {
    auto const& slice = *named.slice;
    require_checksum(file.name(), named.tensor, slice,
                     checksum_of(file, slice.offset, slice.bytes, named.tensor, buffer));
  }

  std::filesystem::path folder_;
  manifest manifest_;
};

}  // namespace parallel::checkpoint
