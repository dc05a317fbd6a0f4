// tokenizer.json, the file format of Hugging Face's tokenizers, as far as byte-level BPE goes.
//
// These fields are read: model (BPE: vocab, merges as "a b" or ["a", "b"], ignore_merges),
// normalizer (none or NFC), pre_tokenizer (ByteLevel), added_tokens, decoder (ByteLevel).
// Unsupported settings that would change ids (dropout, byte_fallback, other types, ...) are errors
// that name the field. Fields without effect on the ids of a text itself are ignored:
// post_processor, and truncation and padding (settings of a caller's batches, which transformers
// overrides as well). The vocabulary must hold every byte that occurs in UTF-8 (all but C0, C1,
// F5-FF, which GPT-NeoX's lacks): then every text has ids and unk_token is never used. Cost: memory
// for the JSON tree while reading, a few times the size of the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/tokenizer/added_tokens.hpp>
#include <mpt/tokenizer/bpe.hpp>
#include <mpt/tokenizer/vocabulary.hpp>
#include <parallel/checkpoint/json.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// Whether an added token is found before or after the text is normalised.
enum class match_stage : std::uint8_t { raw, normalised };

/// A token that is matched in text before BPE.
struct added_token {
  std::string content;
  std::int32_t id = -1;
  bool special = false;  ///< a control token such as "<|endoftext|>", which decoding may leave out
  match_stage stage = match_stage::raw;
  strip_options strip;
};

/// The content of a tokenizer.json.
struct tokenizer_parts {
  vocabulary tokens;  ///< the model's and the added ones
  merge_table merges;
  std::vector<added_token> added;
  bool normalise_nfc = false;
  bool add_prefix_space = false;   ///< a space before text (and before text after an added token)
  bool split_words = true;         ///< by GPT-2's pattern
  bool whole_words_first = false;  ///< `ignore_merges`: a word that is a token needs no merges
};

namespace detail {

/// Reads fields of a JSON object and names them in errors.
class json_fields {
 public:
  json_fields(nlohmann::json const& object, std::string name, std::string path);

  /// The path of a field for error messages: "file: model.merges".
  [[nodiscard]] std::string path_of(std::string_view field) const;
  /// The field, or nullptr if it is absent or null.
  [[nodiscard]] nlohmann::json const* find(char const* field) const;
  [[nodiscard]] nlohmann::json const& get(char const* field) const;
  [[nodiscard]] json_fields object(char const* field) const;
  [[nodiscard]] std::string const& text(char const* field) const;
  [[nodiscard]] bool flag(char const* field) const;
  [[nodiscard]] bool flag_or(char const* field, bool fallback) const;
  void require_type(std::string_view expected) const;

 private:
  nlohmann::json const& object_;
  std::string name_;
  std::string path_;
};

void read_model(json_fields const& root, tokenizer_parts& parts);

}  // namespace detail

/// Reads the text of a tokenizer.json. `name` is the name of the file in errors.
[[nodiscard]] tokenizer_parts read_tokenizer_json(std::string_view text, std::string const& name);

}  // namespace mpt
