// Options that users of LLM Foundry's scripts, of Composer's launcher and of torchrun know, by what
// they are called here: docs/llm-foundry.md's table, for messages.
#pragma once

#include <string>
#include <string_view>

namespace apps {

/// What to write in place of an option of those scripts, one that `program` does not have; "" for
/// other words. `option`: "--composer_path", with or without "=VALUE".
[[nodiscard]] std::string_view instead_of_foreign_option(std::string_view program,
                                                         std::string_view option);

}  // namespace apps
