#include <mpt/tokenizer/learn_merges.hpp>

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

namespace mpt {
namespace {

/// Counts of pairs of neighbouring tokens, and the words each pair has been seen in.
class pair_counts {
 public:
  using pair = std::pair<std::int32_t, std::int32_t>;

  /// Adds to a pair's count and remembers the word it was seen in.
  void see(pair key, std::int64_t count, std::uint32_t word) {
    auto& row = rows_[packed(key)];
    row.count += count;
    if (row.words.empty() || row.words.back() != word) row.words.push_back(word);
  }
  /// Takes from a pair's count. Its words stay: they are looked through again in vain at worst.
  void lose(pair key, std::int64_t count) { rows_[packed(key)].count -= count; }
  /// Puts a pair into the heap, if it occurs.
  void offer(pair key) {
    auto const count = rows_[packed(key)].count;
    if (count > 0) heap_.push({count, key});
  }
  void offer_all() {
    for (auto const& [key, row] : rows_) {
      auto const left = static_cast<std::int32_t>(key >> 32);
      if (row.count > 0) heap_.push({row.count, {left, static_cast<std::int32_t>(key & mask)}});
    }
  }
  /// Takes out the most frequent pair and says how often it occurs; 0 if none is left.
  [[nodiscard]] std::int64_t pop(pair& key) {
    while (!heap_.empty()) {
      auto const top = heap_.top();
      heap_.pop();
      auto const count = rows_[packed(top.key)].count;
      if (count == top.count) {
        key = top.key;
        return count;
      }
      if (count > 0) heap_.push({count, top.key});
    }
    return 0;
  }
  /// The words a pair was seen in (some may have lost it), which are forgotten here.
  [[nodiscard]] std::vector<std::uint32_t> take_words(pair key) {
    return std::exchange(rows_[packed(key)].words, {});
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

  std::unordered_map<std::uint64_t, tally> rows_;
  std::priority_queue<candidate> heap_;
};

/// Replaces a pair in a word and keeps the counts of the pairs around it; `formed` gets the pairs
/// that came into being.
void merge_in_word(counted_word& word, std::uint32_t index, learnt_merge const& merge,
                   pair_counts& counts, std::vector<pair_counts::pair>& formed) {
  auto& ids = word.ids;
  std::size_t kept = 0;  // ids[0, kept) is the new word so far
  for (std::size_t i = 0; i < ids.size(); ++kept) {
    if (ids[i] != merge.left || i + 1 == ids.size() || ids[i + 1] != merge.right) {
      ids[kept] = ids[i++];
      continue;
    }
    auto const form = [&](pair_counts::pair key) {
      counts.see(key, word.count, index);
      formed.push_back(key);
    };
    if (kept > 0) {
      counts.lose({ids[kept - 1], merge.left}, word.count);
      form({ids[kept - 1], merge.merged});
    }
    i += 2;
    if (i < ids.size()) {
      counts.lose({merge.right, ids[i]}, word.count);
      form({merge.merged, ids[i]});
    }
    ids[kept] = merge.merged;
  }
  ids.resize(kept);
}

}  // namespace

std::vector<learnt_merge> learn_merges(std::vector<counted_word>& words,
                                       std::vector<std::string>& tokens, std::size_t vocab_size,
                                       std::int64_t min_count) {
  using pair = pair_counts::pair;
  pair_counts counts;
  for (std::size_t w = 0; w < words.size(); ++w)
    for (std::size_t i = 1; i < words[w].ids.size(); ++i)
      counts.see({words[w].ids[i - 1], words[w].ids[i]}, words[w].count,
                 static_cast<std::uint32_t>(w));
  counts.offer_all();
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
    // Two pairs may spell one token: then it is the same token.
    auto const [known, is_new] = ids.emplace(spelt, next);
    if (is_new) tokens.push_back(spelt);
    merges.push_back({best.first, best.second, known->second});
    formed.clear();
    for (auto const w : counts.take_words(best))
      merge_in_word(words[w], w, merges.back(), counts, formed);
    std::sort(formed.begin(), formed.end());
    formed.erase(std::unique(formed.begin(), formed.end()), formed.end());
    for (auto const& key : formed) counts.offer(key);
  }
  return merges;
}

}  // namespace mpt
