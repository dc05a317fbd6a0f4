// trace: a simulated step as a trace that Chrome and Perfetto show.
#pragma once

#include <nlohmann/json.hpp>

#include <mpt/plan/predict_run.hpp>

namespace mpt {

/// The events of a simulated step in the Trace Event Format, in microseconds: a process for every
/// pipeline rank, a thread for every stream. Actions that take no time are left out.
[[nodiscard]] nlohmann::json trace_of(simulated_run const& run);

}  // namespace mpt
