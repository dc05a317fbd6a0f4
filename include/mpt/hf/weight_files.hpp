// weight_files: the tensors of a model folder by name, however another program wrote them:
// safetensors, or PyTorch's pickles in zip files (pytorch_model.bin, Composer's .pt), in one file
// or in shards. Names are those of the model, without what wrappers of modules put into them
// (names.hpp). Nothing is loaded beforehand: a rank reads just the ranges it owns.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/hf/is_model.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/hf/torch_file.hpp>
#include <parallel/checkpoint/json.hpp>
#include <parallel/checkpoint/tensor_folder.hpp>

namespace mpt::hf {

/// Tensors of all files, by name. Reading is const and may be done by several threads.
class weight_files {
 public:
  /// Opens a folder, or a single .safetensors, .bin or .pt file. Of a folder's files it takes those
  /// that transformers takes: safetensors before pickles, and of either one file before shards.
  /// Throws when tensors or shards are missing, naming them.
  explicit weight_files(std::filesystem::path const& path) : name_(path.native()) {
    namespace fs = std::filesystem;
    auto const index_path = path / "pytorch_model.bin.index.json";
    auto const single = path / "pytorch_model.bin";
    if (is_torch_file(path)) {
      open(path);
    } else if (fs::exists(path / "model.safetensors") ||
               fs::exists(path / "model.safetensors.index.json") ||
               !(fs::exists(single) || fs::exists(index_path))) {
      safe_.emplace(path);
    } else if (fs::exists(single)) {
      open(single);
    } else {
      open_shards(path, index_path);
    }
    if (!safe_) return;
    for (auto const& stored : safe_->names()) {
      bool const first = stored_.emplace(unwrapped_name(stored), stored).second;
      parallel::require(first, name_, ": two tensors are named \"",
                        printable(unwrapped_name(stored)), "\", of which one is \"",
                        printable(stored), "\"");
    }
  }

  [[nodiscard]] std::string const& name() const { return name_; }
  /// Names of all tensors, sorted.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (auto const& [tensor, stored] : stored_) out.push_back(tensor);
    for (auto const& [tensor, where] : place_) out.push_back(tensor);
    return out;
  }
  [[nodiscard]] bool contains(std::string const& tensor) const {
    return stored_.contains(tensor) || place_.contains(tensor);
  }
  /// Shape and element type of a tensor; throw when there is none of this name.
  [[nodiscard]] std::vector<index> const& shape_of(std::string const& tensor) const {
    return safe_ ? safe_->at(stored(tensor)).extents : at(tensor).second->extents;
  }
  [[nodiscard]] parallel::checkpoint::element_type type_of(std::string const& tensor) const {
    return safe_ ? safe_->at(stored(tensor)).type : at(tensor).second->type;
  }
  /// As the file calls it.
  [[nodiscard]] std::string const& type_name_of(std::string const& tensor) const {
    return safe_ ? safe_->at(stored(tensor)).type_name : at(tensor).second->type_name;
  }
  /// Reads `out.size()` elements from `begin` on, converted.
  template <parallel::checkpoint::real_element T>
  void read(std::string const& tensor, index begin, std::span<T> out) const {
    if (safe_) return safe_->read(stored(tensor), begin, out);
    auto const& [file, entry] = at(tensor);
    file->read(*entry, begin, out);
  }

  /// What a Composer checkpoint says of its model.
  [[nodiscard]] std::optional<nlohmann::json> config() const {
    return files_.empty() ? std::nullopt : files_.front().config();
  }

 private:
  using place = std::pair<torch_file const*, torch_file::entry const*>;

  [[nodiscard]] place const& at(std::string const& tensor) const {
    auto const found = place_.find(tensor);
    parallel::require(found != place_.end(), name_, ": has no tensor \"", tensor, "\"");
    return found->second;
  }

  /// What the safetensors files call a tensor.
  [[nodiscard]] std::string const& stored(std::string const& tensor) const {
    auto const found = stored_.find(tensor);
    return found == stored_.end() ? tensor : found->second;
  }

  torch_file const& open(std::filesystem::path const& path) {
    auto const& file = files_.emplace_back(path);
    for (auto const& [tensor, entry] : file.tensors()) {
      bool const first = place_.emplace(unwrapped_name(tensor), place{&file, &entry}).second;
      parallel::require(first, name_, ": two of its files hold tensor \"", printable(tensor), "\"");
    }
    return file;
  }

  void open_shards(std::filesystem::path const& folder, std::filesystem::path const& index_path) {
    namespace pc = parallel::checkpoint;
    auto const& where = index_path.native();
    auto const json =
        pc::parse_json(parallel::read_text_file(index_path, pc::max_safetensors_header), where);
    auto const& map = pc::member(json, "weight_map", where);
    parallel::require(map.is_object() && !map.empty(), where,
                      ": \"weight_map\" must be an object naming each tensor's file");
    std::map<std::string, torch_file const*> opened;
    for (auto const& [tensor, value] : map.items()) {
      parallel::require(value.is_string() && parallel::is_plain_name(value.get<std::string>()),
                        where, ": \"weight_map\": the file of \"", printable(tensor),
                        "\" must be a plain file name");
      auto const file = value.get<std::string>();
      if (!opened.contains(file)) opened[file] = &open(folder / file);
      parallel::require(opened.at(file)->tensors().contains(tensor), where, ": tensor \"",
                        printable(tensor), "\" should be in ", printable(file), ", but is not");
    }
    parallel::require(map.size() == place_.size(), where, ": names ", map.size(),
                      " tensors, but its files hold ", place_.size());
  }

  std::string name_;
  std::optional<parallel::checkpoint::tensor_folder> safe_;
  std::deque<torch_file> files_;  // addresses stay
  std::map<std::string, place> place_;
  std::map<std::string, std::string> stored_;  ///< of safe_: names there by those without wrappers
};

}  // namespace mpt::hf
