// The normalizer, pre_tokenizer and decoder of a tokenizer.json.
#include <mpt/tokenizer/tokenizer_json.hpp>

#include <cstddef>

namespace mpt {
namespace {

using detail::json_fields;

/// The steps of a field: those of a Sequence, or itself.
[[nodiscard]] std::vector<json_fields> steps_of(json_fields const& field, char const* members) {
  if (field.text("type") == "Sequence") return field.objects(members);
  return {field};
}

[[noreturn]] void refuse_type(json_fields const& step, std::string_view supported) {
  throw parallel::error(parallel::concat(step.path_of("type"), " is \"", step.text("type"),
                                         "\"; supported here: ", supported));
}

/// Requires that a step Replace replaces one text by another.
void require_replacement(json_fields const& step, std::string_view from, std::string_view to) {
  step.object("pattern").require_text("String", from, " here");
  step.require_text("content", to, " here");
}

void read_normalizer(json_fields const& root, tokenizer_parts& parts) {
  if (root.find("normalizer") == nullptr) return;
  bool const byte_level = parts.tokens.decoding().byte_level;
  for (auto const& step : steps_of(root.object("normalizer"), "normalizers")) {
    auto const& type = step.text("type");
    if (type == "NFC") {
      parts.normalizer.nfc = true;
    } else if (type == "Prepend" && !byte_level && !parts.normalizer.prepend_mark) {
      step.require_text("prepend", metaspace::mark, " here");
      parts.normalizer.prepend_mark = true;
    } else if (type == "Replace" && !byte_level) {
      require_replacement(step, " ", metaspace::mark);
      parts.normalizer.replace_spaces = true;
    } else {
      refuse_type(step, byte_level ? "NFC, for byte-level BPE"
                                   : "NFC, one Prepend, Replace, or a Sequence of them");
    }
  }
}

/// The pattern of a step Split that makes a word of every match.
[[nodiscard]] word_pattern read_pattern(json_fields const& split) {
  auto const pattern = split.object("pattern");
  auto const& text = pattern.text("Regex");
  auto const known = find_word_pattern(text);
  parallel::require(known.has_value(), pattern.path_of("Regex"), " is \"", text,
                    "\", for which there is no scanner; known patterns are ", word_pattern_names());
  // All text is matched, so that it does not matter whether what is not matched is isolated.
  bool const inverted = split.flag_or("invert", false);
  split.require_text("behavior", inverted ? "Removed" : "Isolated",
                     inverted ? " where invert is true" : " where invert is false");
  return *known;
}

void read_byte_level_words(json_fields const& root, tokenizer_parts& parts) {
  auto const field = root.object("pre_tokenizer");
  bool is_last_read = false;  // ByteLevel
  for (auto const& step : steps_of(field, "pretokenizers")) {
    auto const& type = step.text("type");
    if (type == "Split" && !is_last_read && !parts.words) {
      parts.words = read_pattern(step);
    } else if (type == "ByteLevel" && !is_last_read) {
      is_last_read = true;
      parts.add_prefix_space = step.flag("add_prefix_space");
      bool const splits = step.flag_or("use_regex", true);
      parallel::require(!parts.words || !splits, step.path_of("use_regex"),
                        " is true after a Split, which is not supported: words would be split by "
                        "GPT-2's pattern, too");
      parallel::require(!parts.words || !parts.add_prefix_space, step.path_of("add_prefix_space"),
                        " is true after a Split, which is not supported: every word would get a "
                        "space");
      if (splits) parts.words = word_pattern::gpt2;
    } else {
      refuse_type(step, "ByteLevel, or a Sequence of Split and ByteLevel, for byte-level BPE");
    }
  }
  parallel::require(is_last_read, field.path_of("pretokenizers"),
                    " holds no ByteLevel, which the decoder ByteLevel needs");
}

[[nodiscard]] metaspace::options read_metaspace(json_fields const& step) {
  step.require_text("replacement", metaspace::mark, " here");
  metaspace::options out;
  out.split = step.flag_or("split", true);
  bool const adds_prefix = step.flag_or("add_prefix_space", true);  // of older files
  std::string const fallback = adds_prefix ? "always" : "never";
  auto const& scheme =
      step.find("prepend_scheme") == nullptr ? fallback : step.text("prepend_scheme");
  parallel::require(adds_prefix || scheme == "never", step.path_of("prepend_scheme"), " is \"",
                    scheme, "\", but add_prefix_space is false: the two must agree");
  if (scheme == "always")
    out.prefix = metaspace::prefix_scheme::always;
  else if (scheme == "first")
    out.prefix = metaspace::prefix_scheme::first;
  else if (scheme == "never")
    out.prefix = metaspace::prefix_scheme::never;
  else
    throw parallel::error(parallel::concat(step.path_of("prepend_scheme"), " is \"", scheme,
                                           "\"; supported are \"first\", \"always\" and "
                                           "\"never\""));
  return out;
}

void read_sentencepiece_words(json_fields const& root, tokenizer_parts& parts) {
  if (root.find("pre_tokenizer") == nullptr) return;
  for (auto const& step : steps_of(root.object("pre_tokenizer"), "pretokenizers")) {
    auto const& type = step.text("type");
    if (type == "Metaspace" && !parts.metaspace) {
      parts.metaspace = read_metaspace(step);
    } else if (type == "Split" && parts.normalizer.replace_spaces) {
      // Gemma's, which never matches, as the normalizer leaves no spaces.
      step.object("pattern").require_text("String", " ", " for SentencePiece's BPE");
    } else {
      refuse_type(step, "none or one Metaspace, for SentencePiece's BPE");
    }
  }
}

[[nodiscard]] std::size_t read_count(json_fields const& step, char const* field,
                                     std::size_t largest) {
  auto const& value = step.get(field);
  auto const valid = value.is_number_unsigned() && value.get<std::uint64_t>() <= largest;
  parallel::require(valid, step.path_of(field), " must be a whole number from 0 to ", largest);
  return static_cast<std::size_t>(value.get<std::uint64_t>());
}

/// Reads the steps of SentencePiece's decoder, each of which may be left out.
[[nodiscard]] decoding_rules read_sentencepiece_decoder(json_fields const& decoder) {
  constexpr std::string_view order[] = {"Replace", "ByteFallback", "Fuse", "Strip"};
  decoding_rules out{.byte_level = false};
  std::size_t next = 0;  // in the order
  for (auto const& step : decoder.objects("decoders")) {
    auto const& type = step.text("type");
    auto kind = next;
    while (kind < std::size(order) && order[kind] != type) ++kind;
    // Strip is for the whole text only if the tokens have been fused.
    bool const supported = kind < std::size(order) && (type != "Strip" || next == kind);
    if (!supported)
      refuse_type(step,
                  "Replace, ByteFallback, Fuse, Strip, in this order, for SentencePiece's "
                  "BPE");
    next = kind + 1;
    if (type == "Replace") {
      require_replacement(step, metaspace::mark, " ");
      out.mark_is_space = true;
    } else if (type == "ByteFallback") {
      out.has_byte_tokens = true;
    } else if (type == "Strip") {
      step.require_text("content", " ", " here");
      out.stripped_spaces = read_count(step, "start", 1024);
      static_cast<void>(read_count(step, "stop", 0));
    }
  }
  return out;
}

}  // namespace

void detail::read_text_steps(json_fields const& root, tokenizer_parts& parts) {
  auto const decoder = root.object("decoder");
  auto const& type = decoder.text("type");
  if (type == "Sequence")
    parts.tokens = vocabulary(read_sentencepiece_decoder(decoder));
  else if (type != "ByteLevel")
    refuse_type(decoder, "ByteLevel, for byte-level BPE, and Sequence, for SentencePiece's BPE");
  read_normalizer(root, parts);
  if (parts.tokens.decoding().byte_level)
    read_byte_level_words(root, parts);
  else
    read_sentencepiece_words(root, parts);
}

}  // namespace mpt
