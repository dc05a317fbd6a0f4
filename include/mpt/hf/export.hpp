// Writing a Hugging Face folder: config.json, model.safetensors (or shards and their index), the
// tokenizer's files.
//
// Tensors come from a callback, a chunk at a time, so that the model never stands in memory a
// second time: memory is one chunk, whatever the model's size. The folder appears whole or not at
// all.
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
#include <parallel/checkpoint/safetensors_writer.hpp>
#include <parallel/checkpoint/save_lock.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/tensor.hpp>

namespace mpt::hf {

/// A tensor of a model: its name in the folder ("transformer.wte.weight") and its shape.
struct named_shape {
  std::string name;
  std::vector<parallel::index> extents;
};

/// Fills `out` with elements [begin, begin + out.size()) of the tensor `name`, row-major.
using tensor_source =
    std::function<void(std::string const& name, parallel::index begin, std::span<float> out)>;

/// The element type of all tensors in the folder.
enum class precision { fp32, bf16, fp16 };

/// As files and config.json name it.
[[nodiscard]] constexpr parallel::checkpoint::element_type element_type_of(precision type) {
  using enum parallel::checkpoint::element_type;
  return type == precision::fp32 ? f32 : type == precision::bf16 ? bf16 : f16;
}
[[nodiscard]] constexpr std::string_view torch_name(precision type) {
  return type == precision::fp32 ? "float32" : type == precision::bf16 ? "bfloat16" : "float16";
}

/// What files of a folder are called. An adapter's are PEFT's (mpt/hf/adapter.hpp).
struct folder_form {
  std::string config_file = "config.json";
  std::string weights = "model";  // .safetensors
  std::string prefix = {};        // of every tensor's name
};

struct export_options {
  precision type = precision::bf16;
  nlohmann::json config = {};  // config.json; "torch_dtype" of a model is set here
  std::optional<nlohmann::json> generation_config = std::nullopt;
  std::filesystem::path tokenizer = {};  // a folder of tokenizer files or a tokenizer.json, or none
  std::map<std::string, std::string> extra_files = {};  // name -> content; override the tokenizer's
  std::uint64_t max_shard_bytes = 5'000'000'000;        // of tensors in one file
  parallel::checkpoint::if_exists existing = parallel::checkpoint::if_exists::refuse;
  parallel::action_hook on_action = {};
  folder_form form = {};
};

/// The files of a tokenizer that are copied when they are there.
inline constexpr std::array<std::string_view, 8> tokenizer_files = {"tokenizer.json",
                                                                    "tokenizer_config.json",
                                                                    "special_tokens_map.json",
                                                                    "added_tokens.json",
                                                                    "vocab.json",
                                                                    "merges.txt",
                                                                    "chat_template.jinja",
                                                                    "tokenizer.model"};

namespace detail {

/// Tensors [begin, end) of the list go into one file.
struct shard {
  std::size_t begin;
  std::size_t end;
  std::string file;
};

/// Values as one of the types in files; `name` is their tensor's.
class narrower {
 public:
  explicit narrower(precision type) : type_(type) {}

  /// Valid until the next call. Throws when float16 has no such finite number.
  [[nodiscard]] std::span<std::byte const> operator()(std::string const& name,
                                                      std::span<float const> values);

 private:
  precision type_;
  std::vector<std::uint16_t> narrow_;
};

}  // namespace detail

/// A folder that is written under a temporary name: begun, filled with the files of `shards`, and
/// finished. Destroyed before that, it leaves nothing behind.
class export_folder {
 public:
  /// Checks everything, and makes the temporary folder. Throws when another program is writing the
  /// folder, and when it exists: unless it is empty, or is an earlier export and `options.existing`
  /// is `replace`.
  export_folder(std::filesystem::path const& folder, std::span<named_shape const> tensors,
                export_options options);
  export_folder(export_folder const&) = delete;
  export_folder& operator=(export_folder const&) = delete;
  ~export_folder();

  /// Where `folder` is, and under which name it is written: the same on every rank.
  [[nodiscard]] static std::filesystem::path target_of(std::filesystem::path const& folder);
  [[nodiscard]] static std::filesystem::path temporary_of(std::filesystem::path const& folder);
  [[nodiscard]] static std::vector<detail::shard> shards_of(std::span<named_shape const> tensors,
                                                            export_options const& options);

  [[nodiscard]] std::filesystem::path temporary() const { return temporary_of(target_); }
  [[nodiscard]] std::vector<detail::shard> const& shards() const { return shards_; }

  /// When the files of tensors are on disk: adds the others, and gives the folder its name.
  void finish();

 private:
  [[nodiscard]] std::string index_of(std::filesystem::path const& folder) const;

  std::filesystem::path target_;
  std::span<named_shape const> tensors_;
  export_options options_;
  std::optional<parallel::checkpoint::save_lock> lock_;
  std::map<std::string, std::string> small_;
  std::vector<detail::shard> shards_;
  std::string index_;
  bool empty_ = false;
  bool made_ = false;
};

/// Writes `tensors` with values from `source` as a Hugging Face model folder that appears under its
/// name when it is complete. Throws as export_folder does.
void hf_export(std::filesystem::path const& folder, std::span<named_shape const> tensors,
               tensor_source const& source, export_options const& options);

}  // namespace mpt::hf
