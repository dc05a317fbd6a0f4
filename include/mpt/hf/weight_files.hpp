// weight_files reads the tensors of another program's model folder by name: safetensors, or
// PyTorch's pickles in zip files (pytorch_model.bin, Composer's .pt), in one file or in shards.
// Names are those of the model, without the parts that wrappers of modules insert (names.hpp).
// Nothing is loaded beforehand: a rank reads only the ranges that it owns.
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
#include <parallel/checkpoint/format/json.hpp>
#include <parallel/checkpoint/format/tensor_folder.hpp>

namespace mpt::hf {

/// Tensors of all files, by name. Reading is const and may be done by several threads.
class weight_files {
 public:
  /// Opens a folder, or a single .safetensors, .bin or .pt file. In a folder it prefers the files
  /// that transformers prefers: safetensors to pickles, and one file to shards. Throws when tensors
  /// or shards are missing, with their names.
  explicit weight_files(std::filesystem::path const& path);

  [[nodiscard]] std::string const& name() const { return name_; }
  /// Names of all tensors, sorted.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool contains(std::string const& tensor) const;
  /// The shape and the element type of a tensor. Both throw when there is no tensor of this name.
  [[nodiscard]] std::vector<index> const& shape_of(std::string const& tensor) const;
  [[nodiscard]] parallel::checkpoint::element_type type_of(std::string const& tensor) const;
  /// The name of a tensor's element type in the file.
  [[nodiscard]] std::string const& type_name_of(std::string const& tensor) const;
  /// Reads `out.size()` elements from `begin` on, converted.
  template <parallel::checkpoint::real_element T>
  void read(std::string const& tensor, index begin, std::span<T> out) const {
    if (safetensors_) return safetensors_->read(stored_name(tensor), begin, out);
    auto const& [file, entry] = location_of(tensor);
    file->read(*entry, begin, out);
  }

  /// The metadata of a single safetensors file, or of the first shard.
  [[nodiscard]] parallel::checkpoint::tensor_metadata metadata() const;

  /// The configuration in a Composer checkpoint.
  [[nodiscard]] std::optional<nlohmann::json> config() const;

 private:
  using tensor_location = std::pair<torch_file const*, torch_file::entry const*>;

  [[nodiscard]] tensor_location const& location_of(std::string const& tensor) const;

  /// The name of a tensor in the safetensors files.
  [[nodiscard]] std::string const& stored_name(std::string const& tensor) const;

  torch_file const& open(std::filesystem::path const& path);

  void open_shards(std::filesystem::path const& folder, std::filesystem::path const& index_path);

  std::string name_;
  std::optional<parallel::checkpoint::tensor_folder> safetensors_;
  std::deque<torch_file> files_;  // a deque keeps the addresses of files
  std::map<std::string, tensor_location> locations_;
  std::map<std::string, std::string>
      stored_names_;  ///< names in safetensors_ by names without wrappers
};

}  // namespace mpt::hf
