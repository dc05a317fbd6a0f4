#include <mpt/config/run/read_algorithms.hpp>

#include <array>
#include <string_view>
#include <utility>

namespace mpt {
namespace {

/// Reads gradient_clipping. `new_adapters`: the run begins with new adapters, half of which are
/// zero.
[[nodiscard]] parallel::train::clipping read_gradient_clipping(config_reader& parent,
                                                               bool new_adapters) {
  using kind = parallel::train::clipping_kind;
  constexpr std::array<std::pair<std::string_view, kind>, 3> kinds{
      {{"norm", kind::norm}, {"value", kind::value}, {"adaptive", kind::adaptive}}};
  bool const is_enabled = parent.is_named("gradient_clipping");
  auto section = parent.section("gradient_clipping");
  auto const type = section.one_of("clipping_type", "norm", {"norm", "value", "adaptive"});
  section.check("clipping_type", !new_adapters || type != "adaptive",
                "'adaptive' compares a gradient with its parameter, and new adapters "
                "(model.peft_config) begin at zero, so nothing would be trained; choose norm");
  auto const threshold = section.optional<double>("clipping_threshold");
  section.check("clipping_threshold", !is_enabled || threshold, "missing; it is required");
  section.check("clipping_threshold", !threshold || *threshold > 0, "must be above 0, found ",
                threshold.value_or(0));
  section.finish();
  parallel::train::clipping clip;
  for (auto const& [name, value] : kinds)
    if (threshold && type == name) clip = {value, *threshold};
  return clip;
}

/// Accepts an algorithm whose change the model already has, and refuses it for any other model.
void read_surgery(config_reader& reader, std::string_view key, bool model_has_it,
                  std::string_view option) {
  config_node const* const settings = reader.peek(key);
  bool const is_empty = settings == nullptr || (settings->is_map() && settings->items.empty());
  if (model_has_it && is_empty)
    reader.accept_without_effect(key, parallel::concat("the model is so by ", option));
  else
    reader.refuse_named(key, parallel::concat("a model is what its own keys say: set ", option));
}

}  // namespace

parallel::train::clipping read_algorithms(config_reader reader, model_config const& model,
                                          bool new_adapters) {
  auto const clip = read_gradient_clipping(reader, new_adapters);
  read_surgery(reader, "alibi", model.attn.alibi, "model.attn_config.alibi: true");
  read_surgery(reader, "gated_linear_units", model.ffn_type == ffn_kind::mptglu,
               "model.ffn_config.ffn_type: mptglu");
  read_surgery(reader, "low_precision_layernorm",
               model.norm_type == norm_kind::low_precision_layernorm,
               "model.norm_type: low_precision_layernorm");
  reader.finish(true);
  return clip;
}

}  // namespace mpt
