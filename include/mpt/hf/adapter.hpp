// Reading an adapter in PEFT's form, a folder with adapter_config.json and
// adapter_model.safetensors (or .bin), and the export options that write such a folder.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/model/read_lora.hpp>
#include <mpt/hf/adapted_model.hpp>
#include <mpt/hf/export.hpp>
#include <mpt/hf/weight_files.hpp>

namespace mpt::hf {

/// The prefix of a parameter's name in PEFT's files.
inline constexpr std::string_view adapter_prefix = "base_model.model.";

/// An adapter's folder, open for reading. Reading is const and may be done by several threads.
class peft_adapter {
 public:
  /// Opens `folder`. Throws when the configuration or the tensors are missing or damaged.
  explicit peft_adapter(std::filesystem::path const& folder)
      : folder_(folder), config_json_(read_adapter_json(folder)), tensors_(file_of(folder)) {}

  /// The tensors by the names that they have in the file.
  [[nodiscard]] weight_files const& tensors() const { return tensors_; }

  /// The adapter's configuration for `model`. Throws when the model lacks its layers, or when the
  /// adapter is not LoRA.
  [[nodiscard]] lora_config config(model_config const& model) const;

  /// The folder of the model for which the adapter was trained. Throws when it is no folder here,
  /// nor in the hub's cache.
  [[nodiscard]] std::filesystem::path base() const;

  [[nodiscard]] std::vector<index> const& shape_of(std::string const& parameter) const;
  /// Reads `out.size()` elements of a parameter from `begin` on, converted to T.
  template <class T>
  void read(std::string const& parameter, index begin, std::span<T> out) const {
    tensors_.read(stored_name(parameter), begin, out);
  }

  /// What the adapter's file says of the model for which it was trained.
  [[nodiscard]] adapted_model adapted() const;

  /// Checks that the adapter has exactly the `expected` parameters; the error names one that
  /// differs.
  void require_tensors(std::span<named_shape const> expected) const;

 private:
  [[nodiscard]] named_model base_name() const;
  [[nodiscard]] static std::string stored_name(std::string const& parameter);
  [[nodiscard]] static std::filesystem::path file_of(std::filesystem::path const& folder);

  std::filesystem::path folder_;
  nlohmann::json config_json_;
  weight_files tensors_;
};

/// The parameters of adapters among `tensors`, and the other parameters.
[[nodiscard]] std::vector<named_shape> adapters_of(std::span<named_shape const> tensors);
/// The tensors that belong to no adapter.
[[nodiscard]] std::vector<named_shape> without_adapters(std::span<named_shape const> tensors);

/// The options for exporting the adapter of `model`, which was trained for the weights of `base`.
[[nodiscard]] export_options adapter_options_of(model_config const& model, precision type,
                                                adapted_model const& base);

}  // namespace mpt::hf
