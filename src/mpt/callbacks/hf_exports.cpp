#include <mpt/callbacks/hf_exports.hpp>

#include <filesystem>
#include <system_error>

#include <mpt/hf/convert.hpp>
#include <mpt/hf/shapes.hpp>

namespace mpt {

hf_exports hf_exports_of(model_config const& model, data_config const& data,
                         callbacks_config const& callbacks, std::string const& base) {
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
