// The tensors of a model that a configuration describes.
#pragma once

#include <string>
#include <vector>

#include <mpt/hf/export.hpp>
#include <mpt/model/model.hpp>

namespace mpt::hf {

/// Name and extents of every parameter, in the order of the layers. Cost: no memory for elements.
[[nodiscard]] inline std::vector<named_shape> shapes_of(model_config const& config) {
  std::vector<named_shape> out;
  model<float> net(config);
  net.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
    layer.visit_parameters([&](parallel::parameter_base<float>& p) {
      out.push_back({p.name, p.extents});
    });
  });
  return out;
}

}  // namespace mpt::hf
