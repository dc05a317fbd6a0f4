// tokenizer.json as transformers' AutoTokenizer changes it by the files next to it.
//
// Followed is transformers 4.57.6 with its fast classes (docs/site/pages/tokenizers.md says where
// others differ):
//
// - tokens and flags of tokenizer_config.json's added_tokens_decoder, or, if it has none, of
//   added_tokens.json; then the tokens that have roles (eos_token, additional_special_tokens,
//   extra_special_tokens, ...) in tokenizer_config.json, in special_tokens_map.json, or in the
//   class. A token that tokenizer.json lacks gets the next id. A special token stays special.
// - add_prefix_space of byte-level BPE. Where it is true or false for Llama's class, the steps of
//   SentencePiece's BPE are made anew, by `legacy`.
// - add_bos_token and add_eos_token of classes that put tokens around a text by themselves.
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include <mpt/tokenizer/tokenizer_files.hpp>

namespace mpt {

/// A tokenizer.json that no file next to it changes any more.
struct auto_tokenizer {
  nlohmann::json json;
  /// A number that differs between tokenizers that give some text other ids, except for deliberate
  /// collisions; never 0. It depends on the bytes of tokenizer.json, and on the files next to it as
  /// far as they change the ids of a text.
  std::uint64_t fingerprint = 0;
  /// Whether the text of a special token is no token (split_special_tokens).
  bool splits_special_tokens = false;
};

/// Reads the files of a tokenizer. Throws if a file has a field of wrong form, or an id for a new
/// token that is not the next one; a tokenizer.json of wrong form is returned as it is.
[[nodiscard]] auto_tokenizer read_auto_tokenizer(tokenizer_files const& files);

}  // namespace mpt
