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
  explicit weight_files(std::filesystem::path const& path);

  [[nodiscard]] std::string const& name() const { return name_; }
  /// Names of all tensors, sorted.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(std::string const& tensor) const;
  /// Shape and element type of a tensor; throw when there is none of this name.
  [[nodiscard]] std::vector<index> const& shape_of(std::string const& tensor) const;
  [[nodiscard]] parallel::checkpoint::element_type type_of(std::string const& tensor) const;
  /// As the file calls it.
  [[nodiscard]] std::string const& type_name_of(std::string const& tensor) const;
  /// Reads `out.size()` elements from `begin` on, converted.
  template <parallel::checkpoint::real_element T>
  void read(std::string const& tensor, index begin, std::span<T> out) const {
    if (safe_) return safe_->read(stored(tensor), begin, out);
    auto const& [file, entry] = at(tensor);
    file->read(*entry, begin, out);
  }

  /// What a Composer checkpoint says of its model.
  [[nodiscard]] std::optional<nlohmann::json> config() const;

 private:
  using place = std::pair<torch_file const*, torch_file::entry const*>;

  [[nodiscard]] place const& at(std::string const& tensor) const;

  /// What the safetensors files call a tensor.
  [[nodiscard]] std::string const& stored(std::string const& tensor) const;

  torch_file const& open(std::filesystem::path const& path);

  void open_shards(std::filesystem::path const& folder, std::filesystem::path const& index_path);

  std::string name_;
  std::optional<parallel::checkpoint::tensor_folder> safe_;
  std::deque<torch_file> files_;  // addresses stay
  std::map<std::string, place> place_;
  std::map<std::string, std::string> stored_;  ///< of safe_: names there by those without wrappers
};

}  // namespace mpt::hf
