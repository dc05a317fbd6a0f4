// read_path: reads a key whose value is a path on this machine that may contain {run_name}.
#pragma once

#include <string>
#include <string_view>

#include <mpt/yaml/reader.hpp>

namespace mpt::detail {

[[nodiscard]] std::string with_run_name(std::string path, std::string const& run_name);

/// A path on this machine with {run_name} filled in; "" when blank. `later_mark` is another mark in
/// braces that the path may contain and that is filled in later.
[[nodiscard]] std::string read_path(config_reader& reader, std::string_view key,
                                    std::string const& run_name, std::string_view later_mark = {});

}  // namespace mpt::detail
