#include <mpt/config/model/lora.hpp>

#include <cmath>

namespace mpt {

bool is_target(std::string_view target, std::string_view layer) {
  return layer == target || (layer.size() > target.size() && layer.ends_with(target) &&
                             layer[layer.size() - target.size() - 1] == '.');
}

std::int64_t lora_rank(lora_config const& lora, std::string_view layer) {
  return value_for(lora.rank_pattern, layer, lora.rank);
}

double lora_scale(lora_config const& lora, std::string_view layer) {
  auto const rank = static_cast<double>(lora_rank(lora, layer));
  return value_for(lora.alpha_pattern, layer, lora.alpha) /
         (lora.rank_stabilised ? std::sqrt(rank) : rank);
}

bool is_adapted(lora_config const& lora, std::string_view layer) {
  for (auto const& target : lora.targets)
    if (is_target(target, layer)) return true;
  return false;
}

bool is_adapter(std::string_view parameter) {
  return parameter.ends_with(lora_a_suffix) || parameter.ends_with(lora_b_suffix);
}

}  // namespace mpt
