// Writes a safetensors file tensor by tensor, never holding more than the caller's chunk.
//
// All tensors are declared first, which fixes the header; their bytes may then be written in any
// order among tensors, each tensor's own in order. Wider elements come first, so that every tensor
// is aligned for readers that map the file. The file appears under its name only when it is
// complete.
#pragma once

#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <parallel/checkpoint/format/safetensors_header.hpp>
#include <parallel/core/file.hpp>

namespace parallel::checkpoint {

/// A tensor about to be written.
struct tensor_declaration {
  std::string name;
  element_type type = element_type::f32;
  std::vector<index> extents;
};

/// The positions of tensors in a file, widest elements first. Throws, naming `file`, on what cannot
/// be written.
[[nodiscard]] inline safetensors_header lay_out_safetensors(
    std::vector<tensor_declaration> const& tensors, tensor_metadata metadata,
    std::string_view file) {
  safetensors_header header{.tensors = {}, .metadata = std::move(metadata)};
  for (auto const& [name, type, extents] : tensors) {
    require(name != "__metadata__" && type != element_type::unknown, file, ": tensor \"", name,
            "\" of type ", to_string(type), " cannot be written");
    header.tensors.push_back({.name = name,
                              .type_name = std::string(to_string(type)),
                              .type = type,
                              .extents = extents});
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](auto const& a, auto const& b) { return size_of(a.type) > size_of(b.type); });
  std::uint64_t position = 0;
  for (auto& entry : header.tensors) {
    auto const width = size_of(entry.type);
    entry.begin = position;
    auto const location = concat(file, ": tensor \"", entry.name, "\"");
    auto const elements = checked_volume(entry.extents, width, location);
    position += static_cast<std::uint64_t>(elements) * width;
    require(position <= INT64_MAX, location, ": the file would exceed 63 bits of bytes");
    entry.end = position;
  }
  return header;
}

struct safetensors_writer_options {
  tensor_metadata metadata = {};
  action_hook on_action = {};
};

/// A safetensors file being written. If it is destroyed before `finish`, it leaves nothing behind.
class safetensors_writer {
 public:
  /// Writes the header of `path` under a temporary name in the same folder.
  safetensors_writer(std::filesystem::path path, std::vector<tensor_declaration> const& tensors,
                     safetensors_writer_options options = {})
      : path_(std::move(path)),
        header_(lay_out_safetensors(tensors, std::move(options.metadata), path_.native())),
        on_action_(std::move(options.on_action)),
        file_(open()) {
    try {
      for (std::size_t i = 0; i < header_.tensors.size(); ++i)
        require(progress_.emplace(header_.tensors[i].name, progress{i, 0}).second, path_.native(),
                ": tensor \"", header_.tensors[i].name, "\" declared twice");
      auto const text = pack_safetensors_header(format_safetensors_header(header_, path_.native()),
                                                0, path_.native());
      data_begin_ = text.size();
      file_.write(0, std::as_bytes(std::span(text)));
    } catch (...) {
      discard();
      throw;
    }
  }
  safetensors_writer(safetensors_writer&&) = delete;
  ~safetensors_writer() {
    if (!finished_) discard();
  }

  /// Appends the next elements of a tensor: whole ones, in the declared type.
  void append(std::string const& tensor, std::span<std::byte const> bytes) {
    auto const found = progress_.find(tensor);
    require(found != progress_.end(), path_.native(), ": tensor \"", tensor, "\" was not declared");
    auto& [tensor_number, written] = found->second;
    auto const& entry = header_.tensors[tensor_number];
    require(bytes.size() <= entry.end - entry.begin - written, path_.native(), ": tensor \"",
            tensor, "\" of shape ", shape_text(entry.extents), " has ", entry.end - entry.begin,
            " bytes; ", written, " are written and ", bytes.size(), " more were given");
    require(bytes.size() % size_of(entry.type) == 0, path_.native(), ": tensor \"", tensor,
            "\": ", bytes.size(), " bytes are not whole elements of ", entry.type_name);
    files::announce(on_action_, "write tensor");
    file_.write(data_begin_ + entry.begin + written, bytes);
    written += bytes.size();
  }

  /// Checks that every tensor is complete, flushes, and gives the file its name.
  void finish() {
    for (auto const& entry : header_.tensors) {
      auto const written = progress_.at(entry.name).written;
      require(written == entry.end - entry.begin, path_.native(), ": tensor \"", entry.name,
              "\" is incomplete: ", written, " of ", entry.end - entry.begin, " bytes were given");
    }
    files::announce(on_action_, "flush file");
    file_.sync();
    files::announce(on_action_, "rename file");
    files::rename(file_.path(), path_);
    finished_ = true;
    files::announce(on_action_, "flush folder");
    files::sync_folder(files::parent_folder(path_));
  }

 private:
  struct progress {
    std::size_t tensor_number;
    std::uint64_t written;
  };

  [[nodiscard]] output_file open() const {
    files::announce(on_action_, "create file");
    auto temporary = path_;
    temporary += ".tmp";
    return output_file(temporary, output_file::existing::replace);
  }

  void discard() { ::unlink(file_.path().c_str()); }

  std::filesystem::path path_;
  safetensors_header header_;
  action_hook on_action_;
  output_file file_;
  std::uint64_t data_begin_ = 0;
  std::unordered_map<std::string, progress> progress_;
  bool finished_ = false;
};

}  // namespace parallel::checkpoint
