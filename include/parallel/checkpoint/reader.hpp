// Reading a checkpoint: any flat range of any tensor, whatever layout wrote it.
//
// Opening reads only the manifest, so that ranks can take its text from the one that read it and
// open the files they need, no others. A flat slice that is read whole is checked against its
// checksum on the way; parts of slices cannot be, so a resuming program calls `verify` (each rank
// its share) before it trusts a checkpoint. Reading is const and may be done by several threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/checkpoint/file_contents.hpp>
#include <parallel/checkpoint/manifest.hpp>
#include <parallel/checkpoint/safetensors.hpp>

namespace parallel::checkpoint {

/// A complete checkpoint, open for reading.
class checkpoint_reader {
 public:
  /// Opens a checkpoint's folder. Throws when its manifest is missing or damaged. A file that is
  /// missing or has another size is found when it is read.
  explicit checkpoint_reader(std::filesystem::path const& folder)
      : checkpoint_reader(folder, read_manifest_text(folder)) {}

  /// Opens a checkpoint's folder by the text of its manifest, which has been read.
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
  /// Its files beside the manifest, and the bytes of each.
  [[nodiscard]] std::map<std::string, std::uint64_t> const& files() const {
    return manifest_.slices.files;
  }
  [[nodiscard]] bool contains(std::string const& tensor) const {
    return tensors().contains(tensor);
  }
  /// Throws when there is no tensor of this name.
  [[nodiscard]] sliced_tensor const& at(std::string const& tensor) const {
    auto const found = tensors().find(tensor);
    require(found != tensors().end(), folder_.native(), ": has no tensor \"", tensor, "\"");
    return found->second;
  }

  /// Reads elements from `begin` on as they are; `out` holds whole elements.
  void read_bytes(std::string const& tensor, index begin, std::span<std::byte> out) const {
    auto const width = size_of(at(tensor).type);
    require(out.size() % width == 0, folder_.native(), ": tensor \"", tensor, "\": ", out.size(),
            " bytes are not whole elements of ", name_of(at(tensor).type));
    stream_bytes(tensor, {begin, static_cast<index>(out.size() / width), 1, 0}, out);
  }

  /// Reads `out.size()` elements from `begin` on. They are converted when both types are real
  /// numbers; otherwise the types must agree.
  template <class T>
  void read(std::string const& tensor, index begin, std::span<T> out) const {
    read(tensor, {begin, static_cast<index>(out.size()), 1, 0}, out);
  }

  /// Reads `run` elements of a row from `begin` on, and the same columns of the rows that follow,
  /// until `out` is full; run 0: one element after another. Opens a file once for each slice that
  /// it reads of, however many rows there are.
  template <class T>
  void read_block(std::string const& tensor, index begin, index run, std::span<T> out) const {
    if (run == 0) return read(tensor, begin, out);
    auto const count = static_cast<index>(out.size());
    auto const row = row_size(at(tensor));
    require(run > 0 && count % run == 0 && run <= row, folder_.native(), ": tensor \"", tensor,
            "\": ", count, " elements are not whole runs of ", run, " of rows of ", row);
    read(tensor, {begin, run, count / run, row}, out);
  }

  /// Reads every header and slice and compares its checksum: a sentence for each that is damaged,
  /// and for each file that is not there. Throws where the system does not let it read
  /// (storage_error, access_error), which tells nothing of the checkpoint. With several ranks, rank
  /// `share` of `shares` reads its part, about as many bytes as the others and few files. Cost:
  /// reads all of it, each file from its beginning to its end, past what the system remembers of
  /// it, so that it is the disk that is asked.
  [[nodiscard]] std::vector<std::string> damage(index share = 0, index shares = 1) const {
    require(0 <= share && share < shares, folder_.native(), ": damage: share ", share, " of ",
            shares);
    std::vector<std::string> found;
    std::vector<std::byte> buffer(static_cast<std::size_t>(chunk_bytes));
    auto const note = [&](auto const& checks) {
      try {
        checks();
      } catch (error const& problem) {
        if (is_of_system(problem)) throw;
        found.emplace_back(problem.what());
      }
    };
    for (auto const& one : parts(share, shares))
      note([&] {
        auto const file = open(one.first);
        file.forget_cached();
        if (one.second.from_start) note([&] { check_header(file, one.second.of, buffer); });
        for (auto const& part : one.second.of.slices) note([&] { check(file, part, buffer); });
      });
    return found;
  }

  /// Throws the first sentence of `damage`, if there is one.
  void verify(index share = 0, index shares = 1) const {
    if (auto const found = damage(share, shares); !found.empty()) fail(found.front());
  }

 private:
  static constexpr index chunk_bytes = index{1} << 20;

  /// `rows` runs of `run` elements, the first from `begin` on, each `stride` after the last.
  struct block {
    index begin, run, rows, stride;

    [[nodiscard]] index end() const { return begin + (rows - 1) * stride + run; }
  };

  template <class T>
  void read(std::string const& tensor, block const& from, std::span<T> out) const {
    auto const type = at(tensor).type;
    if (type == element_type_of(dtype_of<T>))
      return stream_bytes(tensor, from, std::as_writable_bytes(out));
    require(real_element<T> && is_real(type), folder_.native(), ": tensor \"", tensor, "\" is of ",
            name_of(type), ", which is not read as ", name_of(dtype_of<T>));
    if constexpr (real_element<T>) {
      std::vector<std::byte> buffer;
      stream(
          tensor, from,
          [&](std::size_t, std::size_t bytes) {
            buffer.resize(bytes);
            return std::span(buffer);
          },
          [&](std::size_t place, std::span<std::byte> bytes) {
            convert(type, bytes, out.subspan(place, bytes.size() / size_of(type)));
          });
    }
  }

  void stream_bytes(std::string const& tensor, block const& from, std::span<std::byte> out) const {
    auto const width = size_of(at(tensor).type);
    stream(
        tensor, from,
        [&](std::size_t place, std::size_t bytes) { return out.subspan(place * width, bytes); },
        [](std::size_t, std::span<std::byte>) {});
  }

  // Reads a block's elements in pieces within slices, slice by slice: asks destination(place,
  // bytes) where the piece goes whose first element is the block's `place`th, fills it, and calls
  // done(place, filled).
  template <class Destination, class Done>
  void stream(std::string const& name, block const& from, Destination destination,
              Done done) const {
    auto const& tensor = at(name);
    auto const size = tensor.size();
    auto const count = from.run * from.rows;
    require(0 <= from.begin && from.begin <= size && count <= size &&
                (count == 0 || from.end() <= size),
            folder_.native(), ": tensor \"", name, "\" has ", size, " elements; ", count, " from ",
            from.begin, " on were asked for");
    if (count == 0) return;
    for (auto const& slice : tensor.slices) {
      if (slice.end <= from.begin) continue;
      if (slice.begin >= from.end()) break;  // they are sorted
      std::optional<input_file> file;
      index const step = std::max<index>(1, from.stride);
      for (index row = std::max<index>(0, (slice.begin - from.begin - from.run + step) / step);
           row < from.rows && from.begin + row * from.stride < slice.end; ++row) {
        index const begin = from.begin + row * from.stride;
        auto const place = [&](index element) {
          return static_cast<std::size_t>(row * from.run + element - begin);
        };
        stream_run(
            name, slice, begin, begin + from.run, file,
            [&](index first, std::size_t bytes) { return destination(place(first), bytes); },
            [&](index first, std::span<std::byte> bytes) { done(place(first), bytes); });
      }
    }
  }

  // What a slice has of the elements [begin, end); opens `file` when it has some.
  template <class Destination, class Done>
  void stream_run(std::string const& name, slice_record const& slice, index begin, index end,
                  std::optional<input_file>& file, Destination destination, Done done) const {
    auto const width = static_cast<index>(size_of(at(name).type));
    index const length = slice.run == 0 ? slice.end - slice.begin : slice.run;
    index const step = std::max<index>(1, slice.stride);
    index const before = std::max<index>(0, begin - slice.begin - length + 1);
    for (index row = slice.run == 0 ? 0 : (before + step - 1) / step; row < slice.rows(); ++row) {
      index const origin = slice.begin + row * slice.stride;
      if (origin >= end) break;
      index first = std::max(begin, origin);
      index const last = std::min(end, origin + length);
      if (first >= last) continue;
      bool const whole = slice.run == 0 && last - first == length;
      if (!file) file.emplace(open(slice.file));
      running_checksum sum;
      while (first < last) {
        index const piece = std::min(last - first, chunk_bytes / width);
        auto const bytes = destination(first, static_cast<std::size_t>(piece * width));
        auto const place = row * length + first - origin;
        file->read(slice.offset + static_cast<std::uint64_t>(place * width), bytes, name);
        if (whole) sum.add(bytes);
        done(first, bytes);
        first += piece;
      }
      if (whole) require_checksum(file->name(), name, slice, sum.value());
    }
  }

  [[nodiscard]] input_file open(std::string const& name) const {
    input_file file(folder_ / name);
    require_bytes(file.name(), file.size(), files().at(name));
    return file;
  }

  // What one of the ranks that read a checkpoint together reads of a file: these slices of it, and,
  // `from_start`, its header.
  struct file_part {
    file_contents of;
    bool from_start = false;
  };

  // Of each file what begins in one of `shares` equal parts of all bytes.
  [[nodiscard]] std::map<std::string, file_part> parts(index share, index shares) const {
    auto const all = contents_by_file(manifest_.slices);
    std::uint64_t total = 0;
    for (auto const& [name, contents] : all) total += contents.bytes;
    auto const each = total / static_cast<std::uint64_t>(shares) + 1;
    auto const is_ours = [&](std::uint64_t at) { return static_cast<index>(at / each) == share; };
    std::map<std::string, file_part> out;
    std::uint64_t file_at = 0;
    for (auto const& [name, contents] : all) {
      file_part part{contents, is_ours(file_at)};
      std::erase_if(part.of.slices,
                    [&](auto const& one) { return !is_ours(file_at + one.slice->offset); });
      if (part.from_start || !part.of.slices.empty()) out.emplace(name, std::move(part));
      file_at += contents.bytes;
    }
    return out;
  }

  // That of a part of a file, which is read whole.
  [[nodiscard]] static std::uint64_t checksum_of(input_file const& file, std::uint64_t begin,
                                                 std::uint64_t bytes, std::string_view what,
                                                 std::span<std::byte> buffer) {
    running_checksum sum;
    for (std::uint64_t at = 0; at < bytes;) {
      auto const piece = buffer.first(std::min<std::size_t>(bytes - at, buffer.size()));
      file.read(begin + at, piece, what);
      sum.add(piece);
      at += piece.size();
    }
    return sum.value();
  }

  static void check_header(input_file const& file, file_contents const& contents,
                           std::span<std::byte> buffer) {
    require_header(file.name(), contents,
                   checksum_of(file, 0, contents.header_bytes, "the header", buffer));
  }

  static void check(input_file const& file, named_slice const& one, std::span<std::byte> buffer) {
    auto const& slice = *one.slice;
    require_checksum(file.name(), one.tensor, slice,
                     checksum_of(file, slice.offset, slice.bytes, one.tensor, buffer));
  }

  std::filesystem::path folder_;
  manifest manifest_;
};

}  // namespace parallel::checkpoint
