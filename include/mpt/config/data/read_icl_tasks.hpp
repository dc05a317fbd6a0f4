// Reads `icl_tasks` in the form of LLM Foundry's YAML: a list of tasks, or the name of a file with
// a list.
//
// Paths in LLM Foundry's files are relative to its folder `scripts`. Here a path is searched for
// in the current folder, then in the folder of the YAML file and in the folders above it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/config/data/icl_task.hpp>
#include <mpt/yaml/reader.hpp>

namespace mpt::eval {

/// Defaults that tasks take from the configuration that contains them.
struct task_defaults {
  std::filesystem::path file = {};  ///< file of the configuration
  std::int64_t batch_size = 8;
  std::int64_t max_seq_len = 2048;
};

/// Finds a path that a configuration names. Throws where it is remote or does not exist.
[[nodiscard]] std::filesystem::path find_near(config_reader const& reader, std::string_view key,
                                              std::string const& name,
                                              std::filesystem::path const& file);

namespace detail {

[[nodiscard]] std::vector<std::string> read_strings(config_reader& reader, std::string_view key);

}  // namespace detail

/// Reads a list of tasks; `path` is the full name of its key.
[[nodiscard]] std::vector<task_config> read_task_list(config_node const& list,
                                                      std::string const& path,
                                                      task_defaults const& defaults,
                                                      config_report& report);

/// Reads the tasks of a file: `icl_tasks: [...]`.
[[nodiscard]] std::vector<task_config> read_task_file(std::filesystem::path const& file,
                                                      task_defaults defaults,
                                                      config_report& report);

/// Reads the tasks of a configuration: `icl_tasks`, a list or a file name, or `icl_tasks_str`, a
/// file name; returns none where both are missing.
[[nodiscard]] std::vector<task_config> read_icl_tasks(config_reader& reader,
                                                      task_defaults const& defaults);

}  // namespace mpt::eval
