// Names and shapes of the tensors of the model that a configuration describes.
#pragma once

#include <vector>

#include <mpt/hf/export.hpp>
#include <mpt/model/model.hpp>

namespace mpt::hf {

/// Name and extents of every parameter, in the order of the layers. Cost: no memory for elements.
[[nodiscard]] std::vector<named_shape> shapes_of(model_config const& config);

}  // namespace mpt::hf
