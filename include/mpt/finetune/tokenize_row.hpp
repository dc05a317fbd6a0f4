// A row's text as turns of ids, with what a tokenizer puts around a text.
//
// Prompts and responses get what the tokenizer puts around every text (its post_processor, or
// add_bos_token and add_eos_token of GPT-NeoX's class): MPT's tokenizers put nothing. A
// beginning-of-text token that stands in front of both is taken off the response. A rendered
// conversation has all its tokens already, so nothing is put around its parts.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/finetune/example.hpp>
#include <mpt/finetune/format_row.hpp>
#include <mpt/tokenizer/around_text.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::finetune {

/// Turns rows of text into turns of ids. One for each thread, because of its cache.
class row_tokenizer {
 public:
  /// `engine` runs the tokenizer's own template of conversations, if it has one; else ChatML.
  explicit row_tokenizer(tokenizer const& tokenizer, template_engine engine = {})
      : tokenizer_(&tokenizer),
        engine_(std::move(engine)),
        around_(read_around_text(tokenizer)),
        begin_(tokenizer.id_of_role("bos_token")) {}

  /// The turns of a row. Errors name `where`.
  [[nodiscard]] std::vector<turn> turns(formatted_row const& row, std::string_view where);

 private:
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, around_text const& around);

  [[nodiscard]] chat_renderer const& renderer(std::string_view where);

  tokenizer const* tokenizer_;
  template_engine engine_;
  chat_renderer render_;
  around_text around_;
  std::optional<std::int32_t> begin_;
  word_cache cache_;
};

}  // namespace mpt::finetune
