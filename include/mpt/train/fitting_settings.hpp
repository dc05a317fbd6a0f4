// Which settings make a run fit that does not: tried in the order of what they cost.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <mpt/config/train.hpp>

namespace mpt {

/// Overrides of a configuration, as a command line takes them.
using settings = std::vector<std::string>;

/// What to try for a run of `config` on `ranks` ranks, cheapest first: microbatches as large as
/// fit, more ZeRO, recomputation, then ranks, twice as many at a time, up to `most_ranks`.
[[nodiscard]] inline std::vector<settings> memory_saving_settings(train_config const& config,
                                                                  int ranks,
                                                                  int most_ranks = 4096) {
  settings smaller;
  if (config.device_train_microbatch_size.value_or(1) > 1)
    smaller.emplace_back(is_canonical(config) ? "device_train_microbatch_size=1"
                                              : "device_train_microbatch_size=auto");
  auto const with = [&](settings const& more) {
    settings out = smaller;
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  auto const stage = [](int level) { return fmt::format("zero_stage={}", level); };
  std::string const recompute = "fsdp_config.activation_checkpointing=true";
  bool const shards = ranks > config.parallelism.ranks_of_model();

  std::vector<settings> out;
  if (!smaller.empty()) out.push_back(smaller);
  for (int level = config.zero_stage + 1; shards && level <= 3; ++level)
    out.push_back(with({stage(level)}));
  if (!recomputes(config)) {
    out.push_back(with({stage(config.zero_stage), recompute}));
    if (shards && config.zero_stage < 3) out.push_back(with({stage(3), recompute}));
  }
  for (int more = 2 * ranks; more <= most_ranks; more *= 2) {
    settings wider{fmt::format("ranks={}", more)};
    if (config.zero_stage < 3) wider.push_back(stage(3));
    out.push_back(with(wider));
    if (recomputes(config)) continue;
    wider.push_back(recompute);
    out.push_back(with(wider));
  }
  return out;
}

/// The first of these that `fits`, as one text; empty: none does.
[[nodiscard]] inline std::string settings_that_fit(
    std::vector<settings> const& all, std::function<bool(settings const&)> const& fits) {
  for (auto const& one : all)
    if (fits(one)) return fmt::format("{}", fmt::join(one, " "));
  return {};
}

}  // namespace mpt
