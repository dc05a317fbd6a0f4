// read_run_parts: reads and checks the parts of a run, before any rank trains.
#pragma once

#include <mpt/config/train.hpp>
#include <mpt/train/data/example_batches.hpp>
#include <mpt/train/data/example_set.hpp>
#include <mpt/train/run_parts.hpp>

namespace mpt {

/// Reads the parts that a configuration asks for. `examples`: the examples of its loaders
/// (read_run_examples).
[[nodiscard]] run_parts read_run_parts(train_config const& config, run_examples examples,
                                       remote_sets sets = {});

}  // namespace mpt
