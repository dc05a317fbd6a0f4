// An adapter in PEFT's form: a folder with adapter_config.json and adapter_model.safetensors (or
// .bin), to read, and what such a folder is called and says, to write.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/read_lora.hpp>
#include <mpt/hf/export.hpp>
#include <mpt/hf/weight_files.hpp>

namespace mpt::hf {

/// What stands before our names of parameters in PEFT's files.
inline constexpr std::string_view adapter_prefix = "base_model.model.";

/// An adapter's folder, open for reading. Reading is const and may be done by several threads.
class peft_adapter {
 public:
  /// Opens `folder`; throws when configuration or tensors are missing or damaged.
  explicit peft_adapter(std::filesystem::path const& folder)
      : folder_(folder), json_(read_adapter_json(folder)), tensors_(file_of(folder)) {}

  /// What it is beside `model`; throws when that has no such layers, or it is no LoRA.
  [[nodiscard]] lora_config config(model_config const& model) const;

  /// Where the model lies that it was trained beside; throws when that is no folder here.
  [[nodiscard]] std::filesystem::path base() const;

  [[nodiscard]] std::vector<index> const& shape_of(std::string const& parameter) const;
  /// Reads elements of a parameter from `begin` on, converted to T.
  template <class T>
  void read(std::string const& parameter, index begin, std::span<T> out) const {
    tensors_.read(stored(parameter), begin, out);
  }

  /// Checks that it has exactly these parameters; one error names what differs.
  void require_tensors(std::span<named_shape const> expected) const;

 private:
  [[nodiscard]] static std::string stored(std::string const& parameter);
  [[nodiscard]] static std::filesystem::path file_of(std::filesystem::path const& folder);

  std::filesystem::path folder_;
  nlohmann::json json_;
  weight_files tensors_;
};

/// Of these parameters those of adapters, or the others.
[[nodiscard]] std::vector<named_shape> adapters_of(std::span<named_shape const> all);
[[nodiscard]] std::vector<named_shape> without_adapters(std::span<named_shape const> all);

/// How an adapter's folder is written, beside the model in the folder `base` ("": not known).
[[nodiscard]] export_options adapter_options_of(lora_config const& lora, precision type,
                                                std::string const& base);

}  // namespace mpt::hf
