#include <mpt/hf/names.hpp>

#include <array>
#include <string>
#include <string_view>

#include <mpt/model/model.hpp>

namespace mpt::hf {

std::string fused_name(std::string name) {
  constexpr std::string_view blocks = "transformer.blocks.";
  if (!name.starts_with(blocks)) return name;
  auto const part_begin = name.find('.', blocks.size()) + 1;
  for (std::string_view const fused_part :
       std::array<std::string_view, 3>{"norm_1.", "attn.", "norm_2."})
    if (std::string_view(name).substr(part_begin).starts_with(fused_part))
      return name.insert(part_begin, "norm_attn_norm.");
  return name;
}

std::string unwrapped_name(std::string name) {
  for (std::string_view const wrapper : std::array<std::string_view, 3>{
           "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module."})
    for (auto begin = name.find(wrapper); begin != std::string::npos;
         begin = name.find(wrapper, begin))
      if (begin == 0 || name[begin - 1] == '.')
        name.erase(begin, wrapper.size());
      else
        ++begin;
  while (name.starts_with("module.")) name.erase(0, 7);
  if (name.starts_with("model.transformer.") || name.starts_with("model.lm_head."))
    name.erase(0, 6);
  return name;
}

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
