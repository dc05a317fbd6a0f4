// Finds, for an option of LLM Foundry's scripts, of Composer's launcher or of torchrun, what to use
// here instead, for error messages. docs/llm-foundry.md holds the same table.
#pragma once

#include <string>
#include <string_view>

namespace apps {

/// What to write instead of such an option, which `program` does not have; "" for other words.
/// `option`: for example "--composer_path", with or without "=VALUE".
[[nodiscard]] std::string_view instead_of_foreign_option(std::string_view program,
                                                         std::string_view option);

}  // namespace apps
