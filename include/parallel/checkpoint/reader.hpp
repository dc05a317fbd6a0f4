// Reading a checkpoint: any flat range of any tensor, whatever layout wrote it.
//
// Opening reads only the manifest. A flat slice that is read whole is checked against its checksum
// on the way; parts of slices cannot be, so a resuming program calls `verify` (each rank its share)
// before it trusts a checkpoint. Reading is const and may be done by several threads.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/checkpoint/manifest.hpp>
#include <parallel/checkpoint/safetensors.hpp>

namespace parallel::checkpoint {

/// A complete checkpoint, open for reading.
class checkpoint_reader {
 public:
  /// Opens a checkpoint's folder. Throws when its manifest is missing or damaged, or one of its
  /// files is missing or has another size.
  explicit checkpoint_reader(std::filesystem::path folder)
      : folder_(std::move(folder)), manifest_(read_manifest(folder_)) {}

  [[nodiscard]] std::filesystem::path const& folder() const { return folder_; }
  /// The state given to `commit`.
  [[nodiscard]] nlohmann::json const& state() const { return manifest_.state; }
  /// Type, shape and slices of all tensors, by name.
  [[nodiscard]] std::map<std::string, sliced_tensor> const& tensors() const {
    return manifest_.slices.tensors;
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
    stream(
        tensor, begin, static_cast<index>(out.size() / width),
        [&](index first, std::size_t bytes) {
          return out.subspan(static_cast<std::size_t>(first - begin) * width, bytes);
        },
        [](index, std::span<std::byte>) {});
  }

  /// Reads `out.size()` elements from `begin` on. They are converted when both types are real
  /// numbers; otherwise the types must agree.
  template <class T>
  void read(std::string const& tensor, index begin, std::span<T> out) const {
    auto const type = at(tensor).type;
    if (type == element_type_of(dtype_of<T>)) {
      read_bytes(tensor, begin, std::as_writable_bytes(out));
      return;
    }
    require(real_element<T> && is_real(type), folder_.native(), ": tensor \"", tensor, "\" is of ",
            name_of(type), ", which is not read as ", name_of(dtype_of<T>));
    if constexpr (real_element<T>) {
      std::vector<std::byte> buffer;
      stream(
          tensor, begin, static_cast<index>(out.size()),
          [&](index, std::size_t bytes) {
            buffer.resize(bytes);
            return std::span(buffer);
          },
          [&](index first, std::span<std::byte> bytes) {
            convert(
                type, bytes,
                out.subspan(static_cast<std::size_t>(first - begin), bytes.size() / size_of(type)));
          });
    }
  }

  /// Reads `run` elements of a row from `begin` on, and the same columns of the rows that follow,
  /// until `out` is full; run 0: one element after another.
  template <class T>
  void read_block(std::string const& tensor, index begin, index run, std::span<T> out) const {
    if (run == 0) return read(tensor, begin, out);
    auto const row = row_size(at(tensor));
    for (std::size_t done = 0; done < out.size();
         done += static_cast<std::size_t>(run), begin += row)
      read(tensor, begin, out.subspan(done, static_cast<std::size_t>(run)));
  }

  /// Reads every slice and checks its checksum; throws naming the first damaged one. With several
  /// ranks, rank `share` of `shares` checks its part of the slices.
  void verify(index share = 0, index shares = 1) const {
    require(0 <= share && share < shares, folder_.native(), ": verify: share ", share, " of ",
            shares);
    index counter = 0;
    for (auto const& [name, tensor] : tensors())
      for (auto const& slice : tensor.slices)
        if (counter++ % shares == share) check(name, slice);
  }

 private:
  static constexpr index chunk_bytes = index{1} << 20;

  // Reads `count` elements from `begin` on, in pieces within slices: asks destination(first, bytes)
  // where the piece goes, fills it, and calls done(first, filled).
  template <class Destination, class Done>
  void stream(std::string const& name, index begin, index count, Destination destination,
              Done done) const {
    auto const& tensor = at(name);
    auto const size = tensor.size();
    require(0 <= begin && begin <= size && count >= 0 && count <= size - begin, folder_.native(),
            ": tensor \"", name, "\" has ", size, " elements; ", count, " from ", begin,
            " on were asked for");
    if (count == 0) return;
    auto const width = static_cast<index>(size_of(tensor.type));
    auto const end = begin + count;
    for (auto const& slice : tensor.slices) {
      if (slice.end <= begin) continue;
      if (slice.begin >= end) break;                                              // they are sorted
      index const length = slice.run == 0 ? slice.end - slice.begin : slice.run;  // of a run
      index const step = std::max<index>(1, slice.stride);
      index const before = std::max<index>(0, begin - slice.begin - length + 1);
      std::optional<input_file> file;
      for (index row = slice.run == 0 ? 0 : (before + step - 1) / step; row < slice.rows(); ++row) {
        index const origin = slice.begin + row * slice.stride;
        if (origin >= end) break;
        index first = std::max(begin, origin);
        index const last = std::min(end, origin + length);
        if (first == last) continue;
        bool const whole = slice.run == 0 && last - first == length;
        if (!file) file.emplace(folder_ / slice.file);
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
        if (whole) compare(*file, name, slice, sum);
      }
    }
  }

  // Reads all bytes of a slice for its checksum.
  void check(std::string const& name, slice_record const& slice) const {
    if (slice.bytes == 0) return;
    input_file const file(folder_ / slice.file);
    std::vector<std::byte> buffer;
    running_checksum sum;
    for (std::uint64_t at = 0; at < slice.bytes; at += buffer.size()) {
      buffer.resize(std::min<std::uint64_t>(slice.bytes - at, chunk_bytes));
      file.read(slice.offset + at, std::span(buffer), name);
      sum.add(buffer);
    }
    compare(file, name, slice, sum);
  }

  static void compare(input_file const& file, std::string const& name, slice_record const& slice,
                      running_checksum const& sum) {
    require(sum.value() == slice.checksum, file.name(), ": elements ", slice.begin, " to ",
            slice.end, " of tensor \"", name, "\" (", slice.bytes, " bytes at ", slice.offset,
            ") are damaged: their checksum is ", checksum_text(sum.value()), ", the manifest says ",
            checksum_text(slice.checksum), "; use another checkpoint");
  }

  std::filesystem::path folder_;
  manifest manifest_;
};

}  // namespace parallel::checkpoint
