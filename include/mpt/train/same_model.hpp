// A run goes on from weights of the same model.
#pragma once

#include <string_view>

#include <mpt/config/hf.hpp>
#include <mpt/config/model.hpp>
#include <parallel/core/error.hpp>

namespace mpt::detail {

/// Refuses weights of another model than `model`, theirs as `where` says of them.
inline void require_same_model(model_config const& of_weights, std::string_view where,
                               model_config const& model, std::string_view advice,
                               std::string_view except = {}) {
  if (auto const found = difference_of(of_weights, model, except))
    parallel::fail(where, " says ", found->name, " = ", found->first, ", this run's model ",
                   found->second, "; make them equal", advice);
}

}  // namespace mpt::detail
