// A folder of tensors as Hugging Face lays it out: one list of tensors over one or many files.
//
// The folder has either `model.safetensors` or `model.safetensors.index.json`, whose "weight_map"
// gives the file of each tensor; if it has both, the single file counts, as in transformers. All
// headers are read at once. A tensor that the index names and its file does not have is absent, as
// in transformers: some indices name buffers that are computed. Tensors that only the files have
// are an error, since half of a model would otherwise go unnoticed. File names must be plain; links
// are followed (hub caches consist of them).
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/checkpoint/format/safetensors.hpp>

namespace parallel::checkpoint {

/// Tensors of all files of a folder, by name. Reading is const and may be done by several threads.
class tensor_folder {
 public:
  /// Opens `folder`, or the single safetensors file of that name. Throws when tensors or shards are
  /// missing, naming them.
  explicit tensor_folder(std::filesystem::path folder) : folder_(std::move(folder)) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    auto const single = folder_ / "model.safetensors";
    auto const index_path = folder_ / "model.safetensors.index.json";
    if (fs::is_regular_file(folder_, ignored)) {
      open_single(folder_);
    } else if (fs::exists(single, ignored)) {
      open_single(single);
    } else {
      require(fs::exists(index_path, ignored), folder_.native(),
              ": has neither model.safetensors nor model.safetensors.index.json");
      open_shards(index_path);
    }
  }

  [[nodiscard]] std::string const& name() const { return folder_.native(); }
  /// Names of all tensors, sorted.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (auto const& [name, file] : file_numbers_) out.push_back(name);
    return out;
  }
  [[nodiscard]] bool contains(std::string const& tensor) const {
    return file_numbers_.contains(tensor);
  }
  /// Element type and shape of a tensor; throws when there is none of this name.
  [[nodiscard]] tensor_entry const& at(std::string const& tensor) const {
    return file_of(tensor).at(tensor);
  }
  /// The file that holds this tensor; throws when there is none of this name.
  [[nodiscard]] safetensors_file const& file_of(std::string const& tensor) const {
    auto const found = file_numbers_.find(tensor);
    require(found != file_numbers_.end(), folder_.native(), ": has no tensor \"", tensor, "\"");
    return files_[found->second];
  }
  /// Reads elements [begin, end) without conversion; `out` has exactly their bytes.
  void read_bytes(std::string const& tensor, index begin, index end,
                  std::span<std::byte> out) const {
    file_of(tensor).read_bytes(tensor, begin, end, out);
  }
  /// Reads `out.size()` elements from `begin` on, converted.
  template <real_element T>
  void read(std::string const& tensor, index begin, std::span<T> out) const {
    file_of(tensor).read(tensor, begin, out);
  }

 private:
  void open_single(std::filesystem::path const& path) {
    files_.emplace_back(path);
    for (auto const& entry : files_.back().tensors()) file_numbers_.emplace(entry.name, 0);
  }

  void open_shards(std::filesystem::path const& path) {
    auto const& location = path.native();
    auto const json = parse_json(read_text_file(path, max_safetensors_header), location);
    auto const& map = member(json, "weight_map", location);
    require(map.is_object() && !map.empty(), location,
            ": \"weight_map\" must be an object naming each tensor's file");
    std::error_code ignored;
    std::map<std::string, std::size_t> opened;
    for (auto const& [tensor, value] : map.items()) {
      require(value.is_string(), location, ": \"weight_map\": the file of \"", tensor,
              "\" must be a string");
      auto const& file = value.get_ref<std::string const&>();
      require(is_plain_name(file), location, ": \"weight_map\": the file of \"", tensor, "\", \"",
              file, "\", is not a plain file name");
      auto const [file_number, fresh] = opened.emplace(file, files_.size());
      if (fresh) {
        require(std::filesystem::exists(folder_ / file, ignored), location, ": names the file ",
                file, " (for \"", tensor, "\"), which is missing; fetch all shards");
        files_.emplace_back(folder_ / file);
      }
      if (files_[file_number->second].find(tensor) != nullptr)
        file_numbers_.emplace(tensor, file_number->second);
    }
    for (auto const& file : files_)
      for (auto const& entry : file.tensors())
        require(file_numbers_.contains(entry.name) && &file_of(entry.name) == &file, location,
                ": does not say that tensor \"", entry.name, "\" is in ", file.name(),
                ", which holds it; the index is not of these files");
  }

  std::filesystem::path folder_;
  std::vector<safetensors_file> files_;
  std::map<std::string, std::size_t> file_numbers_;
};

}  // namespace parallel::checkpoint
