#include <mpt/train/checkpoint/same_model.hpp>

#include <mpt/config/model/hf.hpp>

namespace mpt::detail {

void require_same_model(model_config const& weights_model, std::string_view origin,
                        model_config const& model, std::string_view advice,
                        std::string_view except) {
  if (auto const found = difference_of(weights_model, model, except))
    parallel::fail(origin, " says ", found->name, " = ", found->first, ", this run's model ",
                   found->second, "; make them equal", advice);
}

}  // namespace mpt::detail
