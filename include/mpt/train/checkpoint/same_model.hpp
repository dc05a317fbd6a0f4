// Checks that weights belong to the model of a run.
#pragma once

#include <string_view>

#include <mpt/config/model.hpp>
#include <parallel/core/error.hpp>

namespace mpt::detail {

/// Throws where weights belong to another model than `model`: to `weights_model`, as `origin` (a
/// file, for the message) says.
void require_same_model(model_config const& weights_model, std::string_view origin,
                        model_config const& model, std::string_view advice,
                        std::string_view except = {});

}  // namespace mpt::detail
