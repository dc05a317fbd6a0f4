// The training program, which is the whole of pretrain and finetune.
#pragma once

#include <string>

namespace apps {

/// Reads a YAML in LLM Foundry's form with overrides, and trains as it says. `description`: the
/// first line of the help. Returns the exit code.
[[nodiscard]] int train_program(int argc, char** argv, std::string const& description);

}  // namespace apps
