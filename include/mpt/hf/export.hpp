// Writing a Hugging Face folder: config.json, model.safetensors (or shards and their index), and
// the tokenizer's files.
//
// A callback supplies the tensors a chunk at a time, so an export needs memory for one chunk,
// whatever the model's size. The folder appears complete or not at all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <parallel/checkpoint/atomic_folder.hpp>
#include <parallel/checkpoint/claims/save_lock.hpp>
#include <parallel/checkpoint/format/safetensors_writer.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>

namespace mpt::hf {

/// A tensor of a model: its name ("transformer.wte.weight"), to which the folder may add
/// folder_form::prefix, and its shape.
struct named_shape {
  std::string name;
  std::vector<parallel::index> extents;
};

/// Fills `out` with elements [begin, begin + out.size()) of the tensor `name`, row-major.
using tensor_source =
    std::function<void(std::string const& name, parallel::index begin, std::span<float> out)>;

/// The element type of all tensors in the folder.
enum class precision { fp32, bf16, fp16 };

/// The element type of a precision in safetensors files.
[[nodiscard]] constexpr parallel::checkpoint::element_type element_type_of(precision type) {
  using enum parallel::checkpoint::element_type;
  return type == precision::fp32 ? f32 : type == precision::bf16 ? bf16 : f16;
}
/// The "torch_dtype" of a precision in config.json.
[[nodiscard]] constexpr std::string_view torch_name(precision type) {
  return type == precision::fp32 ? "float32" : type == precision::bf16 ? "bfloat16" : "float16";
}

/// The names of files and tensors in a folder: by default those of a model; those of an adapter are
/// PEFT's (mpt/hf/adapter.hpp).
struct folder_form {
  std::string config_file = "config.json";
  std::string weights = "model";  ///< the stem of the .safetensors files
  std::string prefix = {};        ///< is put before every tensor's name
};

/// The form of the folder that is written.
struct export_options {
  precision type = precision::bf16;
  nlohmann::json config = {};  ///< of config_file; the export of a model adds "torch_dtype"
  std::optional<nlohmann::json> generation_config = std::nullopt;  ///< of generation_config.json
  /// A folder of tokenizer files or a tokenizer.json; "": none.
  std::filesystem::path tokenizer = {};
  /// Content by name; these files replace files of the tokenizer that have the same name.
  std::map<std::string, std::string> extra_files = {};
  /// The bytes of tensors in one file; a larger tensor has a file of its own.
  std::uint64_t max_shard_bytes = 5'000'000'000;
  /// What to do with an earlier export of the same name.
  parallel::checkpoint::if_exists existing = parallel::checkpoint::if_exists::refuse;
  parallel::action_hook on_action = {};
  folder_form form = {};
  /// The metadata of .safetensors files, without which transformers refuses them.
  parallel::checkpoint::tensor_metadata metadata = {{"format", "pt"}};
};

/// The files that are copied from a tokenizer's folder when they exist.
inline constexpr std::array<std::string_view, 8> tokenizer_files = {"tokenizer.json",
                                                                    "tokenizer_config.json",
                                                                    "special_tokens_map.json",
                                                                    "added_tokens.json",
                                                                    "vocab.json",
                                                                    "merges.txt",
                                                                    "chat_template.jinja",
                                                                    "tokenizer.model"};

namespace detail {

/// A .safetensors file of the export, which holds tensors [begin, end) of the list.
struct shard {
  std::size_t begin;
  std::size_t end;
  std::string file;
};

/// Converts values to the element type of the files.
class value_converter {
 public:
  explicit value_converter(precision type) : type_(type) {}

  /// The bytes of the converted values, valid until the next call. `name` is the tensor's. Throws
  /// when a value is too large for float16.
  [[nodiscard]] std::span<std::byte const> operator()(std::string const& name,
                                                      std::span<float const> values);

 private:
  precision type_;
  std::vector<std::uint16_t> converted_;
};

}  // namespace detail

/// A folder that is written under a temporary name. The constructor creates it, the caller writes
/// the files of shards() into temporary(), and finish() adds the other files and gives the folder
/// its name. Without finish() the destructor removes it.
class export_folder {
 public:
  /// Checks the options, reads the tokenizer's files, and creates the temporary folder. Throws when
  /// another program is writing the folder, and when the folder exists, unless it is empty, or is
  /// an earlier export and `options.existing` is `replace`. `tensors` must live as long as the
  /// object.
  export_folder(std::filesystem::path const& folder, std::span<named_shape const> tensors,
                export_options options);
  export_folder(export_folder&&) = delete;
  ~export_folder();

  // Equal on every rank, so that all ranks can write into the folder that rank 0 has created:

  /// The absolute path of `folder`.
  [[nodiscard]] static std::filesystem::path target_of(std::filesystem::path const& folder);
  /// The path under which `folder` is written before finish().
  [[nodiscard]] static std::filesystem::path temporary_of(std::filesystem::path const& folder);
  /// The files of tensors.
  [[nodiscard]] static std::vector<detail::shard> shards_of(std::span<named_shape const> tensors,
                                                            export_options const& options);

  [[nodiscard]] std::filesystem::path temporary() const { return temporary_of(target_); }
  [[nodiscard]] std::vector<detail::shard> const& shards() const { return shards_; }

  /// Adds the index of shards, the configuration, the tokenizer and the extra files, and gives the
  /// folder its name. All files of shards() must be on disk.
  void finish();

 private:
  [[nodiscard]] std::string make_index_json(std::filesystem::path const& folder) const;

  std::filesystem::path target_;
  std::span<named_shape const> tensors_;
  export_options options_;
  std::optional<parallel::checkpoint::save_lock> lock_;
  std::map<std::string, std::string> small_files_;
  std::vector<detail::shard> shards_;
  std::string index_json_;
  bool is_target_empty_ = false;
  bool has_temporary_ = false;
};

/// Writes `tensors` with values from `source` as a Hugging Face model folder that appears under its
/// name when it is complete. Throws as export_folder does.
void hf_export(std::filesystem::path const& folder, std::span<named_shape const> tensors,
               tensor_source const& source, export_options const& options);

}  // namespace mpt::hf
