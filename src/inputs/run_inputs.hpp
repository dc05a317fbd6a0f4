// run_inputs: the inputs that a training program reads before its ranks start.
#pragma once

#include <string>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/train/data/remote_sets.hpp>
#include <mpt/train/run_parts.hpp>

namespace apps {

struct run_inputs {
  mpt::run_parts parts = {};
  std::vector<std::string> lines = {};        ///< to print about the inputs
  std::vector<std::string> fingerprint = {};  ///< see mpt::data_fingerprint
};

/// Reads, tokenises and checks the inputs that the configuration names; they own the caches of
/// `sets`. `compared`: also takes their fingerprint, because the ranks are processes, which may
/// read different copies.
[[nodiscard]] run_inputs read_run_inputs(mpt::train_config const& config, mpt::remote_sets sets,
                                         bool compared);

/// Opens the caches of the loaders whose `remote` is an address.
[[nodiscard]] mpt::remote_sets open_remote_sets(mpt::data_config const& data);

}  // namespace apps
