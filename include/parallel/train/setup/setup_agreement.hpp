// setup_agreement: checks before memory is taken that all ranks construct the same stepper.
//
// Each rank describes its stepper as lines of text (stepper_description.hpp). Ranks that differ
// would wait for each other in exchanges that some of them never reach, or train different models.
// Cost: one exchange of a signature; where lines differ, one more for each bisection of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <parallel/comm/agreement.hpp>
#include <parallel/comm/signature_exchange.hpp>
#include <parallel/core/hash.hpp>

namespace parallel::train {

namespace detail {

/// Hashes of the first 0, 1, 2, ... lines.
[[nodiscard]] inline std::vector<std::uint64_t> hashes_of_first(
    std::vector<std::string> const& lines) {
  std::vector<std::uint64_t> out{fnv1a({})};
  for (auto const& line : lines) out.push_back(out.back() * 0x100000001b3ULL ^ fnv1a(line));
  return out;
}

/// The ranks by what they have: "rank 0 has A; ranks 1, 2 have B".
[[nodiscard]] inline std::string parties_of(std::vector<std::string> const& by_rank,
                                            std::vector<int> const& names) {
  std::vector<std::pair<std::string, std::vector<int>>> parties;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    auto party =
        std::ranges::find(parties, by_rank[rank], &std::pair<std::string, std::vector<int>>::first);
    if (party == parties.end()) party = parties.insert(party, {by_rank[rank], {}});
    party->second.push_back(names[rank]);
  }
  std::string out;
  for (auto const& [text, ranks] : parties)
    out += concat(out.empty() ? "" : "; ", name_ranks(ranks),
                  ranks.size() == 1 ? " has " : " have ", text);
  return out;
}

}  // namespace detail

/// Throws one sentence on all ranks of `world`, with the first line that differs, unless their
/// lines are the same. Collective; blocks.
template <class Comm>
requires requires(Comm& world) { world.open_exchange(); }
void agree_on_setup(Comm& world, std::vector<std::string> lines) {
  if (world.size() == 1) return;
  lines.emplace_back("no more parameters");
  auto const hashes = detail::hashes_of_first(lines);
  auto const signature_of_first = [&](std::size_t first) {
    signature described{.kind = operation_kind::agreement, .count = lines.size()};
    described.file_hash = hashes[std::min(first, lines.size())];
    return described;
  };
  auto const all_equal = [](std::vector<signature> const& signatures) {
    return std::ranges::all_of(signatures, [&](signature const& other) {
      return other.file_hash == signatures.front().file_hash;
    });
  };
  auto const all_signatures = world.open_exchange()(signature_of_first(lines.size()));
  if (all_equal(all_signatures)) return;
  std::size_t equal_lines = 0,
              differing_lines = 0;  // how many first lines are the same, and how many are not
  for (auto const& each_signature : all_signatures)
    differing_lines = std::max(differing_lines, static_cast<std::size_t>(each_signature.count));
  while (differing_lines - equal_lines > 1) {
    std::size_t const half = equal_lines + (differing_lines - equal_lines) / 2;
    (all_equal(world.open_exchange()(signature_of_first(half))) ? equal_lines : differing_lines) =
        half;
  }
  auto own_signature = signature_of_first(equal_lines);
  std::string_view const own_line = equal_lines < lines.size() ? lines[equal_lines] : lines.back();
  own_line.copy(own_signature.file.data(), own_signature.file.size() - 1);
  std::vector<std::string> texts;
  std::vector<int> names;
  for (auto const& shown : world.open_exchange()(own_signature)) {
    names.push_back(world.world_rank(static_cast<int>(texts.size())));
    texts.emplace_back(shown.file_name());
  }
  auto const message = concat("ranks make different steppers: ", detail::parties_of(texts, names),
                              "; give all ranks the same options, optimizers and model");
  world.abort(message);
  fail(message);
}

}  // namespace parallel::train
