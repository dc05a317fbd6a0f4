// agreement: whether ranks that meet are about to do the same, and the sentence when they are not.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/comm/signature.hpp>
#include <parallel/core/error.hpp>

namespace parallel {

/// "rank 3" or "ranks 0, 2".
[[nodiscard]] inline std::string name_ranks(std::span<int const> ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) out += concat(i == 0 ? "" : ", ", ranks[i]);
  return out;
}

/// Whether ranks may take part in one collective from different lines (root and others often do).
enum class call_sites : std::uint8_t { may_differ, must_agree };

namespace detail {

/// What differs between two signatures of one collective, as words; empty: nothing.
[[nodiscard]] inline std::vector<std::string_view> differences(signature const& a,
                                                               signature const& b,
                                                               call_sites sites) {
  std::vector<std::string_view> out;
  if (a.kind != b.kind) out.emplace_back("operation");
  if (a.type != b.type) out.emplace_back("element type");
  if (a.count != b.count) out.emplace_back("count");
  if (a.combine != b.combine) out.emplace_back("reduction");
  if (a.peer != b.peer) out.emplace_back("root");
  if (a.sequence != b.sequence) out.emplace_back("sequence number");
  if (sites == call_sites::must_agree && (a.file_hash != b.file_hash || a.line != b.line))
    out.emplace_back("call site");
  return out;
}

[[nodiscard]] inline std::string join(std::span<std::string_view const> words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) out += concat(i == 0 ? "" : ", ", words[i]);
  return out;
}

}  // namespace detail

/// The sentence that says how the ranks' signatures of one collective differ; empty: they agree.
/// Rank r is called names[r], or r when there are no names.
[[nodiscard]] inline std::string disagreement(std::span<signature const> by_rank,
                                              call_sites sites = call_sites::may_differ,
                                              std::span<int const> names = {}) {
  struct party {
    signature what;
    std::vector<int> ranks;
  };
  std::vector<party> parties;
  std::vector<std::string_view> words;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    int const name = names.empty() ? static_cast<int>(rank) : names[rank];
    auto const same = std::find_if(parties.begin(), parties.end(), [&](party const& p) {
      return detail::differences(p.what, by_rank[rank], sites).empty();
    });
    if (same != parties.end()) {
      same->ranks.push_back(name);
      continue;
    }
    if (!parties.empty())
      for (auto const word : detail::differences(parties.front().what, by_rank[rank], sites))
        if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    parties.push_back({by_rank[rank], {name}});
  }
  if (parties.size() < 2) return {};
  std::string out = concat("ranks disagree in ", detail::join(words), " (call ",
                           parties.front().what.sequence, " of this communicator): ");
  for (std::size_t i = 0; i < parties.size(); ++i)
    out +=
        concat(i == 0 ? "" : "; ", name_ranks(parties[i].ranks), ": ", describe(parties[i].what));
  return out + "; all ranks must make the same calls in the same order";
}

/// The same for a message between `from` and `to`: element type and count must agree.
[[nodiscard]] inline std::string message_disagreement(signature const& sent, int from,
                                                      signature const& received, int to) {
  std::vector<std::string_view> words;
  if (sent.type != received.type) words.emplace_back("element type");
  if (sent.count != received.count) words.emplace_back("count");
  if (words.empty()) return {};
  return concat("sender and receiver disagree in ", detail::join(words), ": rank ", from, ": ",
                describe(sent), "; rank ", to, ": ", describe(received));
}

}  // namespace parallel
