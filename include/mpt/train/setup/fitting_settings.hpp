// Settings that make a run fit which does not fit as configured, in the order of their cost.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <mpt/config/train.hpp>

namespace mpt {

/// Overrides of a configuration, as a command line takes them.
using settings = std::vector<std::string>;

/// Candidates for a run of `config` on `ranks` ranks, the cheapest first: the largest microbatch
/// that fits, a higher ZeRO stage, recomputation, with `offloads` the optimizer's states in the
/// host's memory, then twice as many ranks at a time, up to `max_ranks`. `offloads`: whether the
/// device's memory is not the host's.
[[nodiscard]] std::vector<settings> memory_saving_settings(data_config const& data,
                                                           execution_config const& execution,
                                                           int ranks, bool offloads,
                                                           int max_ranks = 4096);

/// The first candidate for which fits() is true, as one text; "" if there is none.
[[nodiscard]] std::string settings_that_fit(std::vector<settings> const& candidates,
                                            std::function<bool(settings const&)> const& fits);

}  // namespace mpt
