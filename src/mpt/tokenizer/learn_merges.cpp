#include <mpt/tokenizer/learn_merges.hpp>

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

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
