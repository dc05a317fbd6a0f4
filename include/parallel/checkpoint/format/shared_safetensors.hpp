// shared_safetensors: a file of tensors that several ranks fill together, each with its own
// elements, on a disk that all of them see.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <parallel/checkpoint/format/safetensors_writer.hpp>

namespace parallel::checkpoint {

/// One rank creates the file, then all open and write, then all flush. The callers must ensure that
/// every element is written: ranks do not know of each other here.
class shared_safetensors {
 public:
  /// The layout, the same on every rank; nothing happens on the disk.
  shared_safetensors(std::filesystem::path path, std::vector<tensor_declaration> const& tensors,
                     tensor_metadata metadata = {})
      : path_(std::move(path)),
        header_(lay_out_safetensors(tensors, std::move(metadata), path_.native())),
        text_(pack_safetensors_header(format_safetensors_header(header_, path_.native()), 0,
                                      path_.native())) {
    for (std::size_t i = 0; i < header_.tensors.size(); ++i)
      require(by_name_.emplace(header_.tensors[i].name, i).second, path_.native(), ": tensor \"",
              header_.tensors[i].name, "\" declared twice");
  }

  /// Writes the header, and zeros for all elements: on one rank, before the others open the file.
  void create() const {
    output_file const file(path_, output_file::existing::refuse);
    file.write(0, std::as_bytes(std::span(text_)));
    auto const end = text_.size() + (header_.tensors.empty() ? 0 : header_.tensors.back().end);
    std::byte const zero{};
    if (end > text_.size()) file.write(end - 1, std::span(&zero, 1));
  }

  /// Opens the file: on every rank that writes.
  void open() { file_.emplace(path_, output_file::existing::keep); }

  /// Whether the file has a tensor of this name.
  [[nodiscard]] bool contains(std::string const& tensor) const { return by_name_.contains(tensor); }

  /// Writes whole elements, in the declared type, from element `begin` of a tensor on.
  void write(std::string const& tensor, index begin, std::span<std::byte const> bytes) const {
    auto const found = by_name_.find(tensor);
    require(found != by_name_.end(), path_.native(), ": tensor \"", tensor, "\" was not declared");
    auto const& entry = header_.tensors[found->second];
    auto const width = size_of(entry.type);
    auto const first = static_cast<std::uint64_t>(begin) * width;
    require(begin >= 0 && bytes.size() % width == 0 && first <= entry.end - entry.begin &&
                bytes.size() <= entry.end - entry.begin - first,
            path_.native(), ": tensor \"", tensor, "\" of shape ", shape_text(entry.extents),
            " has ", entry.size(), " elements; ", bytes.size() / width, " were given from ", begin,
            " on");
    file_.value().write(text_.size() + entry.begin + first, bytes);
  }

  /// Returns when what this rank wrote is on disk.
  void sync() const { file_.value().sync(); }

 private:
  std::filesystem::path path_;
  safetensors_header header_;
  std::string text_;  // the header as it is in the file
  std::unordered_map<std::string, std::size_t> by_name_;
  std::optional<output_file> file_;
};

}  // namespace parallel::checkpoint
