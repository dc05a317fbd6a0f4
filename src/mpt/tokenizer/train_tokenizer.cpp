#include <mpt/tokenizer/train_tokenizer.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <nlohmann/json.hpp>

#include <mpt/tokenizer/byte_level.hpp>
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
                    "vocab_size ", options.vocab_size, " must be between ", min_size,
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

namespace mpt {
namespace {

/// Counts of pairs of neighbouring tokens, and the words in which each pair was seen.
class pair_counts {
 public:
  using pair = std::pair<std::int32_t, std::int32_t>;

  /// Adds to the count of a pair and records the word in which it was seen.
  void add(pair key, std::int64_t count, std::uint32_t word) {
    auto& entry = tallies_[packed(key)];
    entry.count += count;
    if (entry.words.empty() || entry.words.back() != word) entry.words.push_back(word);
  }
  /// Subtracts from the count of a pair. Its words stay; at worst they are searched in vain.
  void subtract(pair key, std::int64_t count) { tallies_[packed(key)].count -= count; }
  /// Pushes a pair onto the heap if it occurs.
  void push(pair key) {
    auto const count = tallies_[packed(key)].count;
    if (count > 0) heap_.push({count, key});
  }
  void push_all() {
    for (auto const& [key, entry] : tallies_) {
      auto const left = static_cast<std::int32_t>(key >> 32);
      if (entry.count > 0) heap_.push({entry.count, {left, static_cast<std::int32_t>(key & mask)}});
    }
  }
  /// Pops the most frequent pair into `key` and returns its count; 0 if none is left.
  [[nodiscard]] std::int64_t pop(pair& key) {
    while (!heap_.empty()) {
      auto const top = heap_.top();
      heap_.pop();
      auto const count = tallies_[packed(top.key)].count;
      if (count == top.count) {
        key = top.key;
        return count;
      }
      if (count > 0) heap_.push({count, top.key});
    }
    return 0;
  }
  /// Returns and forgets the words in which a pair was seen (some may no longer have it).
  [[nodiscard]] std::vector<std::uint32_t> take_words(pair key) {
    return std::exchange(tallies_[packed(key)].words, {});
  }

 private:
  static constexpr std::uint64_t mask = 0xFFFFFFFFU;
  struct tally {
    std::int64_t count = 0;
    std::vector<std::uint32_t> words;
  };
  struct candidate {
    std::int64_t count;
    pair key;
    bool operator<(candidate const& other) const {
      return count != other.count ? count < other.count : key > other.key;
    }
  };
  [[nodiscard]] static std::uint64_t packed(pair key) {
    return std::uint64_t{static_cast<std::uint32_t>(key.first)} << 32 |
           static_cast<std::uint32_t>(key.second);
  }

  std::unordered_map<std::uint64_t, tally> tallies_;
  std::priority_queue<candidate> heap_;
};

/// Replaces a pair in a word and updates the counts of neighbouring pairs; `formed` gets the new
/// pairs.
void merge_in_word(counted_word& word, std::uint32_t index, learnt_merge const& merge,
                   pair_counts& counts, std::vector<pair_counts::pair>& formed) {
  auto& ids = word.ids;
  std::size_t new_size = 0;  // ids[0, new_size) is the new word so far
  for (std::size_t i = 0; i < ids.size(); ++new_size) {
    if (ids[i] != merge.left || i + 1 == ids.size() || ids[i + 1] != merge.right) {
      ids[new_size] = ids[i++];
      continue;
    }
    auto const add_formed = [&](pair_counts::pair key) {
      counts.add(key, word.count, index);
      formed.push_back(key);
    };
    if (new_size > 0) {
      counts.subtract({ids[new_size - 1], merge.left}, word.count);
      add_formed({ids[new_size - 1], merge.merged});
    }
    i += 2;
    if (i < ids.size()) {
      counts.subtract({merge.right, ids[i]}, word.count);
      add_formed({merge.merged, ids[i]});
    }
    ids[new_size] = merge.merged;
  }
  ids.resize(new_size);
}

}  // namespace

std::vector<learnt_merge> learn_merges(std::vector<counted_word>& words,
                                       std::vector<std::string>& tokens, std::size_t vocab_size,
                                       std::int64_t min_count) {
  using pair = pair_counts::pair;
  pair_counts counts;
  for (std::size_t w = 0; w < words.size(); ++w)
    for (std::size_t i = 1; i < words[w].ids.size(); ++i)
      counts.add({words[w].ids[i - 1], words[w].ids[i]}, words[w].count,
                 static_cast<std::uint32_t>(w));
  counts.push_all();
  std::unordered_map<std::string, std::int32_t> ids;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    ids.emplace(tokens[id], static_cast<std::int32_t>(id));
  std::vector<learnt_merge> merges;
  std::vector<pair> formed;
  while (tokens.size() < vocab_size) {
    pair best;
    auto const count = counts.pop(best);
    if (count < 1 || count < min_count) break;
    auto const next = static_cast<std::int32_t>(tokens.size());
    auto const spelt = tokens[static_cast<std::size_t>(best.first)] +
                       tokens[static_cast<std::size_t>(best.second)];
    // Two pairs that spell the same token become the same token.
    auto const [known, is_new] = ids.emplace(spelt, next);
    if (is_new) tokens.push_back(spelt);
    merges.push_back({best.first, best.second, known->second});
    formed.clear();
    for (auto const w : counts.take_words(best))
      merge_in_word(words[w], w, merges.back(), counts, formed);
    std::sort(formed.begin(), formed.end());
    formed.erase(std::unique(formed.begin(), formed.end()), formed.end());
    for (auto const& key : formed) counts.push(key);
  }
  return merges;
}

}  // namespace mpt
