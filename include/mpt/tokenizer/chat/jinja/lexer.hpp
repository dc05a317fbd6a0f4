// lexer: the tokens of a chat template. White space around tags is removed as jinja2 does with
// trim_blocks and lstrip_blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mpt::jinja {

/// What a token is.
enum class token_kind : std::uint8_t {
  data,
  output_begin,
  output_end,
  block_begin,
  block_end,
  name,
  string,
  integer,
  floating,
  symbol,
  end
};

/// A token with the line that it is in.
struct token {
  token_kind kind;
  std::size_t line;
  std::string text;
};

/// The tokens up to one of kind `end`. Throws render_error for a character that begins none.
[[nodiscard]] std::vector<token> tokenize(std::string_view source);

}  // namespace mpt::jinja
