#include <mpt/tokenizer/bpe.hpp>

#include <functional>
#include <queue>
#include <utility>

namespace mpt {
namespace {

constexpr std::size_t longest_scanned_word = 48;

constexpr std::int32_t no_rank = std::numeric_limits<std::int32_t>::max();

/// Merges a word of at most `longest_scanned_word` tokens.
void merge_by_scan(merge_table const& merges, std::vector<std::int32_t>& ids) {
  merge next[longest_scanned_word];  // merge of the pair (i, i + 1)
  auto const look_up = [&](std::size_t i) {
    auto const* const found = merges.find(ids[i], ids[i + 1]);
    next[i] = found != nullptr ? *found : merge{no_rank, -1};
  };
  std::size_t count = ids.size();
  for (std::size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (next[i].rank < next[best].rank) best = i;
    if (next[best].rank == no_rank) break;
    ids[best] = next[best].id;
    --count;
    for (std::size_t i = best + 1; i < count; ++i) ids[i] = ids[i + 1];
    for (std::size_t i = best + 1; i + 1 < count; ++i) next[i] = next[i + 1];
    if (best + 1 < count) look_up(best);
    if (best > 0) look_up(best - 1);
  }
  ids.resize(count);
}

}  // namespace

bool merge_table::insert(std::int32_t left, std::int32_t right, merge value) {
  auto& entry = entries_[slot_of(key(left, right))];
  if (entry.key != empty) return false;
  entry = {key(left, right), value};
  return true;
}

merge const* merge_table::find(std::int32_t left, std::int32_t right) const {
  auto const& entry = entries_[slot_of(key(left, right))];
  return entry.key == empty ? nullptr : &entry.value;
}

std::uint64_t merge_table::key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

std::size_t merge_table::slot_of(std::uint64_t key) const {
  std::uint64_t const mixed = (key ^ (key >> 29)) * 0x9E3779B97F4A7C15U;
  auto slot = static_cast<std::size_t>(mixed ^ (mixed >> 32)) & mask_;
  while (entries_[slot].key != key && entries_[slot].key != empty) slot = (slot + 1) & mask_;
  return slot;
}

void merge_word(merge_table const& merges, std::vector<std::int32_t>& ids) {
  if (ids.size() <= longest_scanned_word)
    merge_by_scan(merges, ids);
  else
    detail::merge_by_heap(merges, ids);
}

}  // namespace mpt

namespace mpt::detail {

void merge_by_heap(merge_table const& merges, std::vector<std::int32_t>& ids) {
  struct link {
    std::int32_t previous;
    std::int32_t next;
  };
  auto const count = static_cast<std::int32_t>(ids.size());
  auto const id = [&](std::int32_t i) -> std::int32_t& { return ids[static_cast<std::size_t>(i)]; };
  std::vector<link> links(ids.size());
  auto const link_of = [&](std::int32_t i) -> link& { return links[static_cast<std::size_t>(i)]; };
  using candidate = std::pair<std::int32_t, std::int32_t>;  // rank, position
  std::priority_queue<candidate, std::vector<candidate>, std::greater<>> heap;
  auto const push = [&](std::int32_t i) {
    if (i < 0 || link_of(i).next >= count) return;
    if (auto const* const found = merges.find(id(i), id(link_of(i).next)); found != nullptr)
      heap.emplace(found->rank, i);
  };
  for (std::int32_t i = 0; i < count; ++i) link_of(i) = {i - 1, i + 1};
  for (std::int32_t i = 0; i < count; ++i) push(i);
  while (!heap.empty()) {
    auto const [rank, i] = heap.top();
    heap.pop();
    // Merging a neighbour does not remove candidates from the heap; stale ones are skipped here.
    if (id(i) < 0 || link_of(i).next >= count) continue;
    auto const right = link_of(i).next;
    auto const* const found = merges.find(id(i), id(right));
    if (found == nullptr || found->rank != rank) continue;
    id(i) = found->id;
    id(right) = -1;
    link_of(i).next = link_of(right).next;
    if (link_of(i).next < count) link_of(link_of(i).next).previous = i;
    push(link_of(i).previous);
    push(i);
  }
  std::erase(ids, -1);
}

}  // namespace mpt::detail
