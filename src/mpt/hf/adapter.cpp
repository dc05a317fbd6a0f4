#include <mpt/hf/adapter.hpp>

#include <cstdint>
#include <set>
#include <system_error>

namespace mpt::hf {

lora_config peft_adapter::config(model_config const& model) const {
  return from_peft_json(config_json_, model, (folder_ / adapter_config_name).string());
}

std::filesystem::path peft_adapter::base() const {
  auto const key = config_json_.find("base_model_name_or_path");
  auto const name = key != config_json_.end() && key->is_string() ? key->get<std::string>() : "";
  std::error_code unreadable;  // an unreadable folder counts as absent
  parallel::require(!name.empty() && std::filesystem::is_directory(name, unreadable),
                    (folder_ / adapter_config_name).string(), ": base_model_name_or_path is '",
                    printable(name),
                    "', no folder on this machine; name the model's folder and give this one as "
                    "its adapter (--adapter)");
  return name;
}

std::vector<index> const& peft_adapter::shape_of(std::string const& parameter) const {
  return tensors_.shape_of(stored_name(parameter));
}

void peft_adapter::require_tensors(std::span<named_shape const> expected) const {
  std::set<std::string> known;
  for (auto const& [name, extents] : expected) {
    known.insert(stored_name(name));
    parallel::require(tensors_.contains(stored_name(name)), tensors_.name(), ": tensor \"",
                      stored_name(name), "\" is missing");
    auto const& found = shape_of(name);
    parallel::require(found == extents, tensors_.name(), ": tensor \"", stored_name(name),
                      "\" has shape ", parallel::checkpoint::shape_text(found), ", expected ",
                      parallel::checkpoint::shape_text(extents));
  }
  for (auto const& name : tensors_.names())
    parallel::require(known.contains(name), tensors_.name(), ": tensor \"", printable(name),
                      "\" belongs to no adapter of this model");
}

std::string peft_adapter::stored_name(std::string const& parameter) {
  return parallel::concat(adapter_prefix, parameter);
}

std::filesystem::path peft_adapter::file_of(std::filesystem::path const& folder) {
  auto const pickled = folder / "adapter_model.bin";
  auto const safe = folder / "adapter_model.safetensors";
  return !parallel::files::exists(safe) && parallel::files::exists(pickled) ? pickled : safe;
}

std::vector<named_shape> adapters_of(std::span<named_shape const> tensors) {
  std::vector<named_shape> out;
  for (auto const& tensor : tensors)
    if (is_adapter(tensor.name)) out.push_back(tensor);
  return out;
}

std::vector<named_shape> without_adapters(std::span<named_shape const> tensors) {
  std::vector<named_shape> out;
  for (auto const& tensor : tensors)
    if (!is_adapter(tensor.name)) out.push_back(tensor);
  return out;
}

export_options adapter_options_of(model_config const& model, precision type,
                                  std::string const& base) {
  return {.type = type,
          .config = to_peft_json(model.lora.value(), base, model),
          .max_shard_bytes = ~std::uint64_t{0},
          .form = {.config_file = std::string(adapter_config_name),
                   .weights = "adapter_model",
                   .prefix = std::string(adapter_prefix)}};
}

}  // namespace mpt::hf
