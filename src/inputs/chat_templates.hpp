// The engine that runs a tokenizer's chat template: minja, if CMake found it.
#pragma once

#include <mpt/tokenizer/chat/chat_template.hpp>

namespace apps {

/// The engine; empty in a build without minja, whose programs refuse all chat templates but
/// ChatML's.
[[nodiscard]] mpt::template_engine template_engine();

}  // namespace apps
