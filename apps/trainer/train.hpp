// The training program, which is the whole of pretrain and finetune.
#pragma once

#include <string>
#include <vector>

namespace apps {

/// Reads a YAML in LLM Foundry's form with overrides, and trains as it says. `description`: the
/// first line of the help; `examples`: its last lines. Returns the exit code.
[[nodiscard]] int train_program(int argc, char** argv, std::string const& description,
                                std::vector<std::string> const& examples);

}  // namespace apps
