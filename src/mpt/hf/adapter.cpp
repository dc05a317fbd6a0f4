#include <mpt/hf/adapter.hpp>

#include <cstdint>
#include <set>
#include <system_error>

#include <mpt/hub/fetch_repository.hpp>

namespace mpt::hf {

lora_config peft_adapter::config(model_config const& model) const {
  return from_peft_json(config_json_, model, (folder_ / adapter_config_name).string());
}

named_model peft_adapter::base_name() const {
  return adapted_name(config_json_, (folder_ / adapter_config_name).string());
}

std::filesystem::path peft_adapter::base() const {
  auto const [name, revision] = base_name();
  std::error_code unreadable;  // an unreadable folder counts as absent
  if (!name.empty() && std::filesystem::is_directory(name, unreadable)) return name;
  if (hub::means_repository(name))
    if (auto const cached = hub::cached_repository(
            hub::wanted_model(name, hub::weights::included, revision), hub::read_settings()))
      return cached->folder;
  parallel::fail((folder_ / adapter_config_name).string(), ": base_model_name_or_path is '",
                 printable(name), "'", revision == "main" ? "" : ", of revision '",
                 revision == "main" ? "" : printable(revision) + "'",
                 ", no folder on this machine; name the model's folder and give this one as its "
                 "adapter (--adapter)");
}

adapted_model peft_adapter::adapted() const {
  auto const metadata = tensors_.metadata();
  auto const known = metadata.find(std::string(adapted_model_key));
  if (known == metadata.end()) return {};
  return adapted_model_of(nlohmann::json::parse(known->second, nullptr, false), base_name());
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
                                  adapted_model const& base) {
  export_options out{.type = type,
                     .config = to_peft_file(model.lora.value(), base.base, model),
                     .max_shard_bytes = ~std::uint64_t{0},
                     .form = {.config_file = std::string(adapter_config_name),
                              .weights = "adapter_model",
                              .prefix = std::string(adapter_prefix)}};
  if (auto const json = base.to_json(); !json.is_null())
    out.metadata[std::string(adapted_model_key)] = json.dump();
  return out;
}

}  // namespace mpt::hf
