// run_file: the training YAML of a planned run.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/cluster/cluster.hpp>

#include <planner/best_layouts.hpp>

namespace apps {

/// The program that runs a configuration: pretrain or finetune.
[[nodiscard]] std::string_view program_of_run(mpt::train_config const& config);

/// The text of `file` with the overrides and a candidate's settings in it, for as many ranks as the
/// cluster has devices. Variables are replaced by their values.
[[nodiscard]] std::string run_file_text(std::filesystem::path const& file,
                                        std::vector<std::string> const& overrides,
                                        candidate const& c,
                                        parallel::cluster::cluster const& machines);

}  // namespace apps
