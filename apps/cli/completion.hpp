// Completion of a program's command line in bash and zsh, from the same options that --help lists,
// and of the keys that its option --keys prints.
#pragma once

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace apps {

/// The shells for which there are completion scripts.
inline constexpr std::string_view completion_shells[] = {"bash", "zsh"};

/// A script that completes the command line of `program`, to be read by that shell:
///   source <(pretrain --completion bash)
/// Options complete to their names and to the values that they can have. After a YAML file, words
/// complete to its keys if the program has an option --keys; all other words complete to files.
[[nodiscard]] std::string completion_script(CLI::App const& app, std::string_view program,
                                            std::string_view shell);

}  // namespace apps
