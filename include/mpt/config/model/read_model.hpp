// Reads `model` of a configuration into a model_config.
//
// Every key of LLM Foundry's MPTConfig is known here. A key that only chooses an implementation (of
// attention, of the loss, of the device of initialisation) is listed as without effect; an
// unsupported key that would change the model is an error. check_model checks dropouts, shapes and
// the other numbers.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include <mpt/config/model.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt {

/// LLM Foundry's spelling of each init_scheme.
inline constexpr std::array<std::pair<std::string_view, init_scheme>, 8> init_scheme_names{
    {{"default_", init_scheme::torch_default},
     {"baseline_", init_scheme::baseline},
     {"kaiming_uniform_", init_scheme::kaiming_uniform},
     {"kaiming_normal_", init_scheme::kaiming_normal},
     {"neox_init_", init_scheme::neox},
     {"small_init_", init_scheme::small},
     {"xavier_uniform_", init_scheme::xavier_uniform},
     {"xavier_normal_", init_scheme::xavier_normal}}};

/// `ffn_act_fn.name`; gelu_tanh is gelu with `approximate: tanh`.
inline constexpr std::array<std::pair<std::string_view, parallel::ops::activation_kind>, 4>
    activation_names{{{"gelu", parallel::ops::activation_kind::gelu},
                      {"quick_gelu", parallel::ops::activation_kind::quick_gelu},
                      {"silu", parallel::ops::activation_kind::silu},
                      {"relu", parallel::ops::activation_kind::relu}}};

/// Reads and checks a model. Does not call `reader.finish()`: the caller handles the keys of
/// config.json that belong to no model.
[[nodiscard]] model_config read_model(config_reader& reader);

}  // namespace mpt
