// An adapter in PEFT's form: a folder with adapter_config.json and adapter_model.safetensors (or
// .bin), to read, and what such a folder is called and says, to write.
#pragma once

#include <filesystem>
#include <set>
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
  [[nodiscard]] lora_config config(model_config const& model) const {
    return from_peft_json(json_, model, (folder_ / adapter_config_name).string());
  }

  /// Where the model lies that it was trained beside; throws when that is no folder here.
  [[nodiscard]] std::filesystem::path base() const {
    auto const key = json_.find("base_model_name_or_path");
    auto const name = key != json_.end() && key->is_string() ? key->get<std::string>() : "";
    std::error_code unreadable;  // then it is not there
    parallel::require(!name.empty() && std::filesystem::is_directory(name, unreadable),
                      (folder_ / adapter_config_name).string(), ": base_model_name_or_path is '",
                      printable(name),
                      "', no folder on this machine; name the model's folder and give this one as "
                      "its adapter (--adapter)");
    return name;
  }

  [[nodiscard]] std::vector<index> const& shape_of(std::string const& parameter) const {
    return tensors_.shape_of(stored(parameter));
  }
  /// Reads elements of a parameter from `begin` on, converted to T.
  template <class T>
  void read(std::string const& parameter, index begin, std::span<T> out) const {
    tensors_.read(stored(parameter), begin, out);
  }

  /// Checks that it has exactly these parameters; one error names what differs.
  void require_tensors(std::span<named_shape const> expected) const {
    std::set<std::string> known;
    for (auto const& [name, extents] : expected) {
      known.insert(stored(name));
      parallel::require(tensors_.contains(stored(name)), tensors_.name(), ": tensor \"",
                        stored(name), "\" is missing");
      auto const& found = shape_of(name);
      parallel::require(found == extents, tensors_.name(), ": tensor \"", stored(name),
                        "\" has shape ", parallel::checkpoint::shape_text(found), ", expected ",
                        parallel::checkpoint::shape_text(extents));
    }
    for (auto const& name : tensors_.names())
      parallel::require(known.contains(name), tensors_.name(), ": tensor \"", printable(name),
                        "\" belongs to no adapter of this model");
  }

 private:
  [[nodiscard]] static std::string stored(std::string const& parameter) {
    return parallel::concat(adapter_prefix, parameter);
  }
  [[nodiscard]] static std::filesystem::path file_of(std::filesystem::path const& folder) {
    auto const pickled = folder / "adapter_model.bin";
    auto const safe = folder / "adapter_model.safetensors";
    return !parallel::files::exists(safe) && parallel::files::exists(pickled) ? pickled : safe;
  }

  std::filesystem::path folder_;
  nlohmann::json json_;
  weight_files tensors_;
};

/// Of these parameters those of adapters, or the others.
[[nodiscard]] inline std::vector<named_shape> adapters_of(std::span<named_shape const> all) {
  std::vector<named_shape> out;
  for (auto const& tensor : all)
    if (is_adapter(tensor.name)) out.push_back(tensor);
  return out;
}
[[nodiscard]] inline std::vector<named_shape> without_adapters(std::span<named_shape const> all) {
  std::vector<named_shape> out;
  for (auto const& tensor : all)
    if (!is_adapter(tensor.name)) out.push_back(tensor);
  return out;
}

/// How an adapter's folder is written, beside the model in the folder `base` ("": not known).
[[nodiscard]] inline export_options adapter_options_of(lora_config const& lora, precision type,
                                                       std::string const& base) {
  return {.type = type,
          .config = to_peft_json(lora, base),
          .max_shard_bytes = ~std::uint64_t{0},
          .form = {.config_file = std::string(adapter_config_name),
                   .weights = "adapter_model",
                   .prefix = std::string(adapter_prefix)}};
}

}  // namespace mpt::hf
