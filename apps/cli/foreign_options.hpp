// Advice for error messages about options of LLM Foundry's scripts, Composer's launcher and
// torchrun that the programs of this project do not have. docs/llm-foundry.md holds the same table.
#pragma once

#include <string_view>

namespace apps {

/// Advice on the option or argument to give to `program` instead of a foreign option; "" if the
/// option is not a known one. `option`: for example "--composer_path", with or without "=VALUE".
[[nodiscard]] std::string_view foreign_option_advice(std::string_view program,
                                                     std::string_view option);

}  // namespace apps
