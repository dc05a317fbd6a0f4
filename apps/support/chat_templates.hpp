// What runs a tokenizer's chat template: minja where CMake found it.
#pragma once

#include <mpt/tokenizer/chat_template.hpp>

namespace apps {

/// Empty where there is no such library: templates of one's own are refused then.
[[nodiscard]] mpt::template_engine template_engine();

}  // namespace apps
