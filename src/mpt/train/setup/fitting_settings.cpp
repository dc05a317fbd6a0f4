#include <mpt/train/setup/fitting_settings.hpp>

#include <fmt/format.h>

namespace mpt {

std::vector<settings> memory_saving_settings(data_config const& data,
                                             execution_config const& execution, int ranks,
                                             bool offloads, int max_ranks) {
  settings smaller;
  if (data.device_train_microbatch_size.value_or(1) > 1)
    smaller.emplace_back(is_canonical(execution) ? "device_train_microbatch_size=1"
                                                 : "device_train_microbatch_size=auto");
  auto const extend = [&](settings const& additions) {
    settings out = smaller;
    out.insert(out.end(), additions.begin(), additions.end());
    return out;
  };
  auto const zero_stage = [](int level) { return fmt::format("zero_stage={}", level); };
  std::string const recompute = "fsdp_config.activation_checkpointing=true";
  bool const can_shard = ranks > execution.parallelism.ranks_of_model();

  std::vector<settings> out;
  if (!smaller.empty()) out.push_back(smaller);
  for (int level = execution.zero_stage + 1; can_shard && level <= 3; ++level)
    out.push_back(extend({zero_stage(level)}));
  if (!recomputes(execution)) {
    out.push_back(extend({zero_stage(execution.zero_stage), recompute}));
    if (can_shard && execution.zero_stage < 3) out.push_back(extend({zero_stage(3), recompute}));
  }
  if (offloads && !execution.offload_optimizer) {
    settings offloaded{zero_stage(can_shard ? 3 : execution.zero_stage), "offload_optimizer=true"};
    out.push_back(extend(offloaded));
    offloaded.push_back(recompute);
    if (!recomputes(execution)) out.push_back(extend(offloaded));
  }
  for (int count = 2 * ranks; count <= max_ranks; count *= 2) {
    settings wider{fmt::format("ranks={}", count)};
    if (execution.zero_stage < 3) wider.push_back(zero_stage(3));
    out.push_back(extend(wider));
    if (recomputes(execution)) continue;
    wider.push_back(recompute);
    out.push_back(extend(wider));
  }
  return out;
}

std::string settings_that_fit(std::vector<settings> const& candidates,
                              std::function<bool(settings const&)> const& fits) {
  for (auto const& candidate : candidates)
    if (fits(candidate)) return fmt::format("{}", fmt::join(candidate, " "));
  return {};
}

}  // namespace mpt
