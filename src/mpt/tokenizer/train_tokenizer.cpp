#include <mpt/tokenizer/train_tokenizer.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include <mpt/tokenizer/byte_level.hpp>
#include <mpt/tokenizer/learn_merges.hpp>
#include <mpt/tokenizer/split_words.hpp>
#include <mpt/tokenizer/utf8.hpp>

namespace mpt {
namespace {

/// Counts words across texts, in an order that does not depend on the texts' order.
class word_counter {
 public:
  void add(std::string_view word) {
    if (auto const known = counts_.find(word); known != counts_.end())
      ++known->second;
    else
      counts_.emplace(word, 1);
  }
  [[nodiscard]] std::vector<std::pair<std::string_view, std::int64_t>> sorted() const {
    std::vector<std::pair<std::string_view, std::int64_t>> words(counts_.begin(), counts_.end());
    std::sort(words.begin(), words.end());
    return words;
  }

 private:
  struct hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, std::int64_t, hash, std::equal_to<>> counts_;
};

/// The text of a tokenizer.json. `tokens` has the spelling of each id in the file.
[[nodiscard]] std::string write_tokenizer_json(std::vector<std::string> const& tokens,
                                               std::size_t special,
                                               std::vector<learnt_merge> const& merges) {
  auto const token = [&](std::int32_t id) { return tokens[static_cast<std::size_t>(id)]; };
  auto const separator = [](std::size_t i, std::size_t count) {
    return i + 1 < count ? ",\n" : "\n";
  };
  std::string out =
      "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n"
      "  \"added_tokens\": [\n";
  for (std::size_t i = 0; i < special; ++i)
    out += parallel::concat("    {\"id\": ", i, ", \"content\": ", detail::quoted(tokens[i]),
                            ", \"single_word\": false, \"lstrip\": false, \"rstrip\": false, "
                            "\"normalized\": false, \"special\": true}",
                            separator(i, special));
  std::string const byte_level =
      "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
      "\"use_regex\": true}";
  out += "  ],\n  \"normalizer\": null,\n  \"pre_tokenizer\": " + byte_level +
         ",\n  \"post_processor\": " + byte_level + ",\n  \"decoder\": " + byte_level +
         ",\n  \"model\": {\n    \"type\": \"BPE\",\n    \"dropout\": null,\n"
         "    \"unk_token\": null,\n    \"continuing_subword_prefix\": null,\n"
         "    \"end_of_word_suffix\": null,\n    \"fuse_unk\": false,\n"
         "    \"byte_fallback\": false,\n    \"vocab\": {\n";
  for (std::size_t i = 0; i < tokens.size(); ++i)
    out +=
        parallel::concat("      ", detail::quoted(tokens[i]), ": ", i, separator(i, tokens.size()));
  out += "    },\n    \"merges\": [\n";
  for (std::size_t i = 0; i < merges.size(); ++i)
    out += parallel::concat("      ",
                            detail::quoted(token(merges[i].left) + " " + token(merges[i].right)),
                            separator(i, merges.size()));
  out += "    ]\n  }\n}\n";
  return out;
}

/// The special tokens and the 256 bytes in the order of their spelling: the tokens before training.
[[nodiscard]] std::vector<std::string> first_tokens(train_tokenizer_options const& options) {
  std::vector<std::string> bytes;
  for (std::size_t byte = 0; byte < 256; ++byte)
    bytes.push_back(byte_level::spell(static_cast<unsigned char>(byte)));
  std::sort(bytes.begin(), bytes.end());  // UTF-8 sorts like code points
  std::vector<std::string> tokens;
  for (auto const& special : options.special_tokens) {
    parallel::require(!special.empty() && utf8::is_valid(special), "special token \"",
                      utf8::lossy(special), "\" must be UTF-8 and not empty");
    bool const is_taken = std::find(tokens.begin(), tokens.end(), special) != tokens.end() ||
                          std::find(bytes.begin(), bytes.end(), special) != bytes.end();
    parallel::require(!is_taken, "special token \"", special,
                      "\" is given twice, or is the spelling of a single byte");
    tokens.push_back(special);
  }
  tokens.insert(tokens.end(), bytes.begin(), bytes.end());
  auto const min_size = static_cast<std::int64_t>(tokens.size());
  parallel::require(options.vocab_size >= min_size && options.vocab_size <= vocabulary::id_limit,
                    "vocab_size ", options.vocab_size, " must lie between ", min_size,
                    " (256 bytes and the special tokens) and ", vocabulary::id_limit);
  return tokens;
}

}  // namespace

tokenizer train_tokenizer(std::span<std::string const> texts,
                          train_tokenizer_options const& options) {
  auto tokens = first_tokens(options);
  auto const special = options.special_tokens.size();
  added_token_matcher dividers;
  for (std::size_t i = 0; i < special; ++i)
    dividers.insert(tokens[i], static_cast<std::int32_t>(i), {});
  word_counter counter;
  for (auto const& text : texts) {
    auto const count = [&](std::string_view valid) {
      dividers.split(
          valid,
          [&](std::string_view piece) {
            split_words(piece, word_pattern::gpt2,
                        [&](std::string_view word) { counter.add(word); });
          },
          [](std::int32_t) {});
    };
    utf8::is_valid(text) ? count(text) : count(utf8::lossy(text));
  }
  parallel::require(!counter.sorted().empty(), "there is no text to learn a tokenizer from");
  std::int32_t id_of_byte[256] = {};
  for (std::size_t id = special; id < tokens.size(); ++id)
    id_of_byte[static_cast<unsigned char>(byte_level::read(tokens[id])[0])] =
        static_cast<std::int32_t>(id);
  std::vector<counted_word> words;
  for (auto const& [word, count] : counter.sorted()) {
    words.push_back({{}, count});
    for (char const byte : word)
      words.back().ids.push_back(id_of_byte[static_cast<unsigned char>(byte)]);
  }
  auto const merges =
      learn_merges(words, tokens, static_cast<std::size_t>(options.vocab_size), options.min_count);
  return tokenizer(
      {.json = write_tokenizer_json(tokens, special, merges),
       .config = make_tokenizer_config(special > 0 ? tokens[0] : "", options.model_max_length),
       .source = {}});
}

}  // namespace mpt

namespace mpt::detail {

std::string quoted(std::string const& text) { return nlohmann::json(text).dump(); }

}  // namespace mpt::detail
