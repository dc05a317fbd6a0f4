// Reading a checkpoint: any flat range of any tensor, whatever layout wrote it.
//
// Opening reads only the manifest. A slice that is read whole is checked against its checksum on
// the way; parts of slices cannot be, so a resuming program calls `verify` (each rank its share)
// before it trusts a checkpoint. Reading is const and may be done by several threads.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
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

  /// Reads every slice and checks its checksum; throws naming the first damaged one. With several
  /// ranks, rank `share` of `shares` checks its part of the slices.
  void verify(index share = 0, index shares = 1) const {
    require(0 <= share && share < shares, folder_.native(), ": verify: share ", share, " of ",
            shares);
    std::vector<std::byte> buffer;
    index counter = 0;
    for (auto const& [name, tensor] : tensors())
      for (auto const& slice : tensor.slices)
        if (counter++ % shares == share)
          stream(
              name, slice.begin, slice.end - slice.begin,
              [&](index, std::size_t bytes) {
                buffer.resize(bytes);
                return std::span(buffer);
              },
              [](index, std::span<std::byte>) {});
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
    auto slice = std::partition_point(tensor.slices.begin(), tensor.slices.end(),
                                      [&](slice_record const& s) { return s.end <= begin; });
    for (; slice != tensor.slices.end() && slice->begin < begin + count; ++slice) {
      index first = std::max(begin, slice->begin);
      index const last = std::min(begin + count, slice->end);
      bool const whole = first == slice->begin && last == slice->end;
      if (first == last) continue;
      input_file const file(folder_ / slice->file);
      running_checksum sum;
      while (first < last) {
        index const piece = std::min(last - first, chunk_bytes / width);
        auto const bytes = destination(first, static_cast<std::size_t>(piece * width));
        file.read(slice->offset + static_cast<std::uint64_t>((first - slice->begin) * width), bytes,
                  name);
        if (whole) sum.add(bytes);
        done(first, bytes);
        first += piece;
      }
      require(!whole || sum.value() == slice->checksum, file.name(), ": elements ", slice->begin,
              " to ", slice->end, " of tensor \"", name, "\" (", slice->bytes, " bytes at ",
              slice->offset, ") are damaged: their checksum is ", checksum_text(sum.value()),
              ", the manifest says ", checksum_text(slice->checksum), "; use another checkpoint");
    }
  }

  std::filesystem::path folder_;
  manifest manifest_;
};

}  // namespace parallel::checkpoint
