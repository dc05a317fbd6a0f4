// read_path: a key whose value is a path on this machine, in which the run's name may stand.
#pragma once

#include <string>
#include <string_view>

#include <mpt/config/reader.hpp>

namespace mpt::detail {

[[nodiscard]] std::string with_run_name(std::string path, std::string const& run_name);

/// A path on this machine with {run_name} filled in; "" when blank. `later`: what else may stand in
/// braces, and is filled in by others.
[[nodiscard]] std::string read_path(config_reader& reader, std::string_view key,
                                    std::string const& run_name, std::string_view later_mark = {});

}  // namespace mpt::detail
