// evaluator: renders the syntax tree of a chat template.
#pragma once

#include <chrono>
#include <string>

#include <mpt/tokenizer/chat/jinja/tree.hpp>

namespace mpt::jinja {

/// The text of a template. `variables` is a dictionary. Throws render_error, with the line.
[[nodiscard]] std::string render(node const& tree, value const& variables,
                                 std::chrono::local_seconds date);

}  // namespace mpt::jinja
