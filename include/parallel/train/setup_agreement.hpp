// setup_agreement: whether all ranks make the same stepper, asked before it takes memory.
//
// Each rank describes its own as lines of text (stepper_description.hpp). Ranks that differ would
// wait for each other in exchanges that some of them never come to, or train different models.
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

/// "rank 0 has A; ranks 1, 2 have B".
[[nodiscard]] inline std::string parties_of(std::vector<std::string> const& by_rank,
                                            std::vector<int> const& names) {
  std::vector<std::pair<std::string, std::vector<int>>> parties;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    auto at =
        std::ranges::find(parties, by_rank[rank], &std::pair<std::string, std::vector<int>>::first);
    if (at == parties.end()) at = parties.insert(at, {by_rank[rank], {}});
    at->second.push_back(names[rank]);
  }
  std::string out;
  for (auto const& [said, ranks] : parties)
    out += concat(out.empty() ? "" : "; ", name_ranks(ranks),
                  ranks.size() == 1 ? " has " : " have ", said);
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
  auto const tell = [&](std::size_t first) {
    signature told{.kind = operation_kind::agreement, .count = lines.size()};
    told.file_hash = hashes[std::min(first, lines.size())];
    return told;
  };
  auto const same = [](std::vector<signature> const& all) {
    return std::ranges::all_of(
        all, [&](signature const& one) { return one.file_hash == all.front().file_hash; });
  };
  auto const everything = world.open_exchange()(tell(lines.size()));
  if (same(everything)) return;
  std::size_t alike = 0, differ = 0;  // the first lines that are the same, and that are not
  for (auto const& one : everything) differ = std::max(differ, static_cast<std::size_t>(one.count));
  while (differ - alike > 1) {
    std::size_t const half = alike + (differ - alike) / 2;
    (same(world.open_exchange()(tell(half))) ? alike : differ) = half;
  }
  auto told = tell(alike);
  std::string_view const mine = alike < lines.size() ? lines[alike] : lines.back();
  mine.copy(told.file.data(), told.file.size() - 1);
  std::vector<std::string> said;
  std::vector<int> names;
  for (auto const& one : world.open_exchange()(told)) {
    names.push_back(world.world_rank(static_cast<int>(said.size())));
    said.emplace_back(one.file_name());
  }
  auto const message = concat("ranks make different steppers: ", detail::parties_of(said, names),
                              "; give all ranks the same options, optimizers and model");
  world.abort(message);
  fail(message);
}

}  // namespace parallel::train
