// fingerprint: what ranks say of memory that must have the same bits on each of them, and who is
// wrong where they differ.
//
// Nothing here knows a device or a communicator: all ranks have the same statements and judge
// alike.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <parallel/core/config.hpp>

namespace parallel::train {

enum class fingerprint_kind : std::int32_t {
  gradient,  // of one microbatch, before any reduction
  values,    // of parameters, as layers read them
  states     // master weights and optimizer states
};

/// Which memory it is of: where this is equal, bits must be.
struct fingerprint_subject {
  fingerprint_kind kind = fingerprint_kind::gradient;
  std::int32_t unit = 0;     // among all of the model's
  std::int32_t piece = 0;    // of a gradient the part that made it, else the segment
  std::int32_t place = 0;    // of a gradient the data rank whose microbatch it is, else the shard
  std::int32_t tensor = 0;   // the slice
  std::int32_t context = 0;  // of a gradient: which rows

  friend auto operator<=>(fingerprint_subject const&, fingerprint_subject const&) = default;
};

struct fingerprint {
  fingerprint_subject of;
  std::uint64_t bits = 0;
};

/// A fingerprint that rank `rank` has given. It may give several of one subject, one after another.
struct fingerprint_statement {
  fingerprint said;
  int rank = 0;
};

/// Ranks whose bits of a subject were not those of the others.
struct fingerprint_fault {
  fingerprint_subject of;
  std::vector<int> ranks = {};  // ascending
  bool persistent = true;       // else each of them has also stated the right bits
  bool certain = true;          // else nobody can tell which of them are wrong
};

namespace detail {

/// Those of one subject, of whom not all say the same.
[[nodiscard]] inline std::vector<fingerprint_fault> judge_one(
    std::span<fingerprint_statement const> all) {
  struct opinion {
    std::uint64_t bits;
    std::vector<int> ranks = {};  // different ones
    std::size_t times = 0;
    [[nodiscard]] auto weight() const { return std::pair(ranks.size(), times); }
  };
  std::vector<opinion> opinions;
  std::vector<int> everybody;
  auto const add_once = [](std::vector<int>& ranks, int rank) {
    if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
  };
  for (auto const& one : all) {
    auto at = std::ranges::find(opinions, one.said.bits, &opinion::bits);
    if (at == opinions.end()) at = opinions.insert(at, opinion{one.said.bits});
    add_once(at->ranks, one.rank);
    add_once(everybody, one.rank);
    ++at->times;
  }
  std::ranges::sort(everybody);
  std::ranges::stable_sort(opinions, std::greater{}, &opinion::weight);
  auto const& subject = all.front().said.of;
  if (opinions[0].weight() == opinions[1].weight()) return {{subject, everybody, true, false}};
  fingerprint_fault once{subject, {}, false}, always{subject};
  for (int const rank : everybody) {
    bool const was_right = std::ranges::find(opinions[0].ranks, rank) != opinions[0].ranks.end();
    bool const was_wrong = std::ranges::any_of(all, [&](auto const& one) {
      return one.rank == rank && one.said.bits != opinions[0].bits;
    });
    if (was_wrong) (was_right ? once : always).ranks.push_back(rank);
  }
  std::vector<fingerprint_fault> out;
  for (auto* const fault : {&once, &always})
    if (!fault->ranks.empty()) out.push_back(std::move(*fault));
  return out;
}

}  // namespace detail

/// Who is wrong of what, by subject; empty: all who speak of the same agree. Right is what most
/// ranks have said, and of as many what was said most often. Cost: sorts the statements.
[[nodiscard]] inline std::vector<fingerprint_fault> judge(std::vector<fingerprint_statement> all) {
  std::ranges::stable_sort(all, {}, [](auto const& one) { return one.said.of; });
  std::vector<fingerprint_fault> out;
  for (auto begin = all.begin(); begin != all.end();) {
    auto const end = std::find_if(begin, all.end(),
                                  [&](auto const& one) { return one.said.of != begin->said.of; });
    if (std::any_of(begin, end, [&](auto const& one) { return one.said.bits != begin->said.bits; }))
      for (auto& fault : detail::judge_one({begin, end})) out.push_back(std::move(fault));
    begin = end;
  }
  return out;
}

}  // namespace parallel::train
