// adapted_model: the model that adapters were trained for. Checkpoints and adapters' files keep its
// checksums, because a folder that has its name may hold other weights later.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <mpt/config/model/read_lora.hpp>
#include <mpt/hf/weight_files.hpp>

namespace mpt::hf {

struct adapted_model {
  named_model base = {};                              ///< as PEFT's files name it
  std::string folder = {};                            ///< where it was trained; "": not known
  std::map<std::string, std::string> checksums = {};  ///< rounded_tensor_checksums of its files

  /// Empty where nothing but a name is known.
  [[nodiscard]] nlohmann::json to_json() const;
};

/// The model in a Hugging Face folder, or a file of PyTorch. A folder of the hub's cache has the
/// name of its repository and its revision, every other one its absolute path.
[[nodiscard]] adapted_model read_adapted_model(std::filesystem::path const& folder);

/// The model that `json` (adapted_model::to_json) describes; what is not known stays empty.
[[nodiscard]] adapted_model adapted_model_of(nlohmann::json const& json, named_model base);

/// The metadata of an adapter's file that holds adapted_model::to_json.
inline constexpr std::string_view adapted_model_key = "adapted_model";

/// Throws if `found`, the rounded_tensor_checksums of the files `name`, differ from those of the
/// model that `adapters` (a file or a folder) were trained for, and names the first such tensor.
/// Tensors that only one of them knows are not compared, nor those of F16 with another type, which
/// rounds otherwise.
void require_same_weights(adapted_model const& model,
                          std::map<std::string, std::string> const& found, std::string_view name,
                          std::string_view adapters);

/// The same for the model at `path`; nothing is compared where there is no Hugging Face folder, or
/// file of PyTorch, or where the checksums of `model` are not known.
void require_same_weights(adapted_model const& model, std::filesystem::path const& path,
                          std::string_view adapters);

}  // namespace mpt::hf
