#include <mpt/callbacks/hf_checkpointer.hpp>

#include <filesystem>
#include <system_error>

#include <mpt/hf/convert.hpp>
#include <mpt/hf/names.hpp>

namespace mpt {

bool hf_checkpointer::is_due(std::int64_t batch, training_clock const& clock, bool stopped) const {
  return mpt::is_due(settings_.save_interval, batch, clock) || (stopped && batch > 0);
}

std::filesystem::path hf_checkpointer::folder_of(std::int64_t batch, std::int64_t epoch) const {
  auto name = settings_.folder_name;
  auto const fill = [&](std::string const& placeholder, std::int64_t value) {
    for (auto position = name.find(placeholder); position != std::string::npos;
         position = name.find(placeholder))
      name.replace(position, placeholder.size(), std::to_string(value));
  };
  fill("{batch}", batch);
  fill("{epoch}", epoch);
  return std::filesystem::path(settings_.save_folder) / name;
}

hf_exports hf_exports_of(model_config const& model, data_config const& data,
                         callbacks_config const& callbacks, hf::adapted_model const& base) {
  auto const& settings = callbacks.hf_checkpointer.value();
  hf_exports out;
  auto parameters = hf::shapes_of(model);
  if (model.lora) {
    parameters = hf::adapters_of(parameters);
    out.options = hf::adapter_options_of(model, precision_named(settings.precision), base);
  } else {
    std::error_code unreadable;  // an unreadable path counts as absent
    auto const& name = data.tokenizer.name;
    bool const has_tokenizer = !name.empty() && std::filesystem::exists(name, unreadable);
    out.options =
        export_options_of(model, settings.precision, has_tokenizer ? name : std::string());
  }
  out.tensors = stored_tensors_of(model, parameters);
  if (settings.overwrite) out.options.existing = parallel::checkpoint::if_exists::replace;
  return out;
}

}  // namespace mpt
