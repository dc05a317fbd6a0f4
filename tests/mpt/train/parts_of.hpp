// The parts that a test's configuration asks for; compiled once (parallellm_test_parts).
#pragma once

#include <mpt/config/train.hpp>
#include <mpt/train/run_parts.hpp>

namespace tiny_run {

/// Returns mpt::read_run_parts with the examples that the configuration names.
[[nodiscard]] mpt::run_parts parts_of(mpt::train_config const& config);

}  // namespace tiny_run
