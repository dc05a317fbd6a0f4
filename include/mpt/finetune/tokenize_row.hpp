// Converts a row's text to turns of ids, with the tokens that a tokenizer adds around a text.
//
// Prompts and responses get the tokens that the tokenizer adds around every text (its
// post_processor, or add_bos_token and add_eos_token of GPT-NeoX's class); MPT's tokenizers add
// none. If both the prompt and the response begin with the beginning-of-text token, it is removed
// from the response. A rendered conversation contains all its tokens, so nothing is added around
// its turns.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/finetune/chat.hpp>
#include <mpt/finetune/example.hpp>
#include <mpt/tokenizer/text_affixes.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::finetune {

/// Converts rows of text to turns of ids. Each thread needs its own, because of the cache.
class row_tokenizer {
 public:
  /// A conversation is written by the tokenizer's own chat template, with `date` for strftime_now,
  /// or as ChatML.
  row_tokenizer(tokenizer const& tokenizer, std::chrono::local_seconds date)
      : tokenizer_(&tokenizer),
        date_(date),
        affixes_(read_text_affixes(tokenizer)),
        bos_id_(tokenizer.id_of_role("bos_token")) {}

  /// The turns of a row. Errors name `location`.
  [[nodiscard]] std::vector<turn> turns(formatted_row const& row, std::string_view location);

 private:
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text,
                                                 text_affixes const& affixes);

  [[nodiscard]] chat_renderer const& renderer();

  tokenizer const* tokenizer_;
  std::chrono::local_seconds date_;
  chat_renderer renderer_;
  text_affixes affixes_;
  std::optional<std::int32_t> bos_id_;
  word_cache cache_;
};

}  // namespace mpt::finetune
