// A folder of tensors as Hugging Face lays it out: one list of tensors over one or many files.
//
// Either `model.safetensors`, or `model.safetensors.index.json`, whose "weight_map" says which
// file holds which tensor; where a folder has both, the single file, as transformers does. All
// headers are read at once; every tensor that the index names must be
// in the file it names. Tensors that only the files know are an error too: half of a model would
// otherwise go unnoticed. File names must be plain; links are followed (hub caches consist of
// them).
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/checkpoint/safetensors.hpp>

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
    for (auto const& [name, file] : place_) out.push_back(name);
    return out;
  }
  [[nodiscard]] bool contains(std::string const& tensor) const { return place_.contains(tensor); }
  /// Element type and shape of a tensor; throws when there is none of this name.
  [[nodiscard]] tensor_entry const& at(std::string const& tensor) const {
    return file_of(tensor).at(tensor);
  }
  /// The file that holds this tensor; throws when there is none of this name.
  [[nodiscard]] safetensors_file const& file_of(std::string const& tensor) const {
    auto const found = place_.find(tensor);
    require(found != place_.end(), folder_.native(), ": has no tensor \"", tensor, "\"");
    return files_[found->second];
  }
  /// Reads elements [begin, end) as they are; `out` has exactly their bytes.
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
    for (auto const& entry : files_.back().tensors()) place_.emplace(entry.name, 0);
  }

  void open_shards(std::filesystem::path const& path) {
    auto const& where = path.native();
    auto const json = parse_json(read_text_file(path, max_safetensors_header), where);
    auto const& map = member(json, "weight_map", where);
    require(map.is_object() && !map.empty(), where,
            ": \"weight_map\" must be an object naming each tensor's file");
    std::error_code ignored;
    std::map<std::string, std::size_t> opened;
    for (auto const& [tensor, value] : map.items()) {
      require(value.is_string(), where, ": \"weight_map\": the file of \"", tensor,
              "\" must be a string");
      auto const& file = value.get_ref<std::string const&>();
      require(is_plain_name(file), where, ": \"weight_map\": the file of \"", tensor, "\", \"",
              file, "\", is not a plain file name");
      auto const [place, fresh] = opened.emplace(file, files_.size());
      if (fresh) {
        require(std::filesystem::exists(folder_ / file, ignored), where, ": names the file ", file,
                " (for \"", tensor, "\"), which is missing; fetch all shards");
        files_.emplace_back(folder_ / file);
      }
      require(files_[place->second].find(tensor) != nullptr, where, ": tensor \"", tensor,
              "\" should be in ", file, ", but is not");
      place_.emplace(tensor, place->second);
    }
    for (auto const& file : files_)
      for (auto const& entry : file.tensors())
        require(place_.contains(entry.name) && &file_of(entry.name) == &file, where,
                ": does not say that tensor \"", entry.name, "\" is in ", file.name(),
                ", which holds it; the index is not of these files");
  }

  std::filesystem::path folder_;
  std::vector<safetensors_file> files_;
  std::map<std::string, std::size_t> place_;
};

}  // namespace parallel::checkpoint
