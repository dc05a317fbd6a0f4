// The engine that runs a tokenizer's chat template: minja, if CMake found it.
#pragma once

#include <mpt/tokenizer/chat_template.hpp>

namespace apps {

/// Empty in a build without the library, which then refuses templates other than ChatML's.
[[nodiscard]] mpt::template_engine template_engine();

}  // namespace apps
