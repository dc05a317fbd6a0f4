// The program that trains: what pretrain and finetune share, which is all of it.
#pragma once

#include <string>

namespace apps {

/// Reads a YAML in LLM Foundry's form with overrides, and trains as it says. `what`: the help's
/// first line. Returns what main returns.
[[nodiscard]] int train_program(int argc, char** argv, std::string const& description);

}  // namespace apps
