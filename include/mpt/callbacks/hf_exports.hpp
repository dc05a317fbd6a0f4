// hf_exports_of: what the folders of an hf_checkpointer hold beside weights, read before any rank
// trains.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include <mpt/callbacks/hf_checkpointer.hpp>
#include <mpt/config/train.hpp>
#include <mpt/hf/convert.hpp>
#include <mpt/hf/shapes.hpp>

namespace mpt {

/// Of a configuration that has such a callback; reads the tokenizer's files, where there are some.
/// `base`: of a run that trains adapters, see adapter_base_of.
[[nodiscard]] inline hf_exports hf_exports_of(train_config const& config, std::string const& base) {
  auto const& settings = config.callbacks.hf_checkpointer.value();
  hf_exports out{hf::shapes_of(config.model), {}};
  if (auto const& lora = config.model.lora) {
    out.tensors = hf::adapters_of(out.tensors);
    out.options = hf::adapter_options_of(*lora, precision_named(settings.precision), base);
  } else {
    std::error_code unreadable;  // then it is not there
    auto const& name = config.tokenizer.name;
    bool const there = !name.empty() && std::filesystem::exists(name, unreadable);
    out.options = export_options_of(config.model, settings.precision, there ? name : std::string());
  }
  if (settings.overwrite) out.options.existing = parallel::checkpoint::if_exists::replace;
  return out;
}

}  // namespace mpt
