// tokenizer.json, the file format of Hugging Face's tokenizers, as far as BPE goes.
//
// Two kinds of tokenizers are read, which differ in their `decoder`:
//
// - byte-level BPE (`ByteLevel`; GPT-2, GPT-NeoX, Llama 3, Qwen, Mistral NeMo): normalizer none or
//   NFC; pre_tokenizer ByteLevel, with or without GPT-2's pattern, or a Sequence of Split by one of
//   the patterns of split_words.hpp and ByteLevel;
// - SentencePiece's BPE (`Sequence` of Replace, ByteFallback, Fuse, Strip; Llama 2, Mistral):
//   normalizer none, or Prepend of "▁" and Replace of " " by "▁"; pre_tokenizer none or Metaspace.
//
// Read from `model` are vocab, merges as "a b" or ["a", "b"], ignore_merges, and for SentencePiece
// byte_fallback, unk_token and fuse_unk; further added_tokens. Unsupported settings that would
// change ids (dropout, other types or patterns, ...) are errors that name the field. Fields without
// effect on the ids of a text itself are ignored: post_processor (text_affixes.hpp reads it), and
// truncation and padding (settings of a caller's batches, which transformers overrides as well). A
// byte-level vocabulary must hold every byte that occurs in UTF-8 (all but C0, C1, F5-FF, which
// GPT-NeoX's lacks), one of SentencePiece every such byte or an unk_token: then every text has ids.
// Cost: memory for the JSON tree while reading, a few times the size of the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/tokenizer/added_tokens.hpp>
#include <mpt/tokenizer/bpe.hpp>
#include <mpt/tokenizer/character_tokens.hpp>
#include <mpt/tokenizer/metaspace.hpp>
#include <mpt/tokenizer/split_words.hpp>
#include <mpt/tokenizer/vocabulary.hpp>
#include <parallel/checkpoint/format/json.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

/// Whether an added token is found before or after the text is normalised.
enum class match_stage : std::uint8_t { raw, normalised };

/// A token that is matched in text before BPE.
struct added_token {
  std::string content;
  std::int32_t id = -1;
  bool special = false;  ///< a control token such as "<|endoftext|>", which decoding may leave out
  bool is_in_model = true;  ///< whether model.vocab has it as well
  match_stage stage = match_stage::raw;
  match_rules rules;
};

/// The steps that are supported, in the order in which they run. (They do not disturb each other,
/// so that their order in the file does not matter.)
struct text_normalizer {
  bool nfc = false;             ///< to Unicode's normal form C
  bool prepend_mark = false;    ///< one "▁" in front of text that is not empty
  bool replace_spaces = false;  ///< every space becomes "▁"

  /// Whether `apply` may return another text. False is certain.
  [[nodiscard]] bool may_change(std::string_view text) const;

  /// The normalised text. `text` must be valid UTF-8.
  [[nodiscard]] std::string apply(std::string_view text) const;
};

/// The content of a tokenizer.json.
struct tokenizer_parts {
  vocabulary tokens;  ///< the model's and the added ones, with the rules of decoding
  merge_table merges;
  std::vector<added_token> added;
  text_normalizer normalizer;
  bool whole_words_first = false;  ///< `ignore_merges`: a word that is a token needs no merges

  // of byte-level BPE
  bool add_prefix_space = false;  ///< a space before text (and before text after an added token)
  std::optional<word_pattern> words;  ///< nullopt: text is not split into words

  // of SentencePiece's BPE
  std::optional<metaspace::options> metaspace;
  character_tokens characters;
  bool merges_join_words = false;  ///< whether some merge joins another character to a "▁" after it
};

namespace detail {

/// A message, which may quote a file, with '?' for control characters, which a terminal obeys.
[[nodiscard]] std::string without_control_characters(std::string message);

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
  /// The members of a field that is an array of objects.
  [[nodiscard]] std::vector<json_fields> objects(char const* field) const;
  [[nodiscard]] std::string const& text(char const* field) const;
  [[nodiscard]] bool flag(char const* field) const;
  [[nodiscard]] bool flag_or(char const* field, bool fallback) const;
  /// Throws unless the text of a field is `expected`; `context` ends the message.
  void require_text(char const* field, std::string_view expected, std::string_view context) const;

 private:
  nlohmann::json const& object_;
  std::string name_;
  std::string path_;
};

/// Reads normalizer, pre_tokenizer and decoder.
void read_text_steps(json_fields const& root, tokenizer_parts& parts);

/// Reads the vocabulary, its merges and what belongs to them.
void read_model(json_fields const& root, tokenizer_parts& parts);

}  // namespace detail

/// Reads the JSON of a tokenizer.json. `name` is the name of the file in errors.
[[nodiscard]] tokenizer_parts read_tokenizer_parts(nlohmann::json const& json,
                                                   std::string const& name);

/// Reads the text of a tokenizer.json. `name` is the name of the file in errors.
[[nodiscard]] tokenizer_parts read_tokenizer_json(std::string_view text, std::string const& name);

}  // namespace mpt
