#include <mpt/hf/shapes.hpp>

#include <string>

namespace mpt::hf {

std::vector<named_shape> shapes_of(model_config const& config) {
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
