#include <mpt/data/token_streams.hpp>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include <mpt/data/shard_cache.hpp>

namespace mpt::data {
namespace {

/// The largest number of shards that `window` samples in a row, unshuffled, are in.
[[nodiscard]] std::size_t shards_in_row(std::span<std::uint64_t const> shard_samples,
                                        std::uint64_t window) {
  std::size_t out = 0;
  std::size_t end = 0;  // one past the last shard of a window that begins with a last sample
  std::uint64_t samples = 1;
  for (std::size_t begin = 0; begin < shard_samples.size(); ++begin) {
    if (end <= begin) {
      end = begin + 1;
      samples = 1;
    }
    while (end < shard_samples.size() && samples < window) samples += shard_samples[end++];
    out = std::max(out, end - begin);
    if (end > begin + 1) samples -= shard_samples[begin + 1];
  }
  return out;
}

}  // namespace

token_streams::token_streams(std::vector<std::shared_ptr<token_dataset const>> sets,
                             std::vector<std::uint64_t> chosen)
    : sets_(std::move(sets)), chosen_(std::move(chosen)) {
  parallel::require(!sets_.empty(), "there are no streams; name at least one");
  if (chosen_.empty())
    for (auto const& set : sets_) chosen_.push_back(set->size());
  parallel::require(chosen_.size() == sets_.size(), sets_.size(), " streams and ", chosen_.size(),
                    " sample counts");
  for (auto const& set : sets_)
    parallel::require(set->sequence_length() == sequence_length(), set->reader().folder().native(),
                      ": sequences of ", set->sequence_length(), " tokens with streams of ",
                      sequence_length());
}

std::uint64_t token_streams::size() const {
  return std::accumulate(chosen_.begin(), chosen_.end(), std::uint64_t{0});
}

std::string token_streams::name() const {
  auto text = sets_[0]->reader().folder().native();
  if (sets_.size() > 1) text += parallel::concat(" and ", sets_.size() - 1, " more");
  return text;
}

mixture_order token_streams::order(sample_order_options const& options, std::uint64_t epoch) const {
  std::vector<stream_shape> shapes;
  for (std::size_t s = 0; s < sets_.size(); ++s)
    shapes.push_back({sets_[s]->shard_samples(), chosen_[s]});
  return {shapes, options, epoch};
}

void token_streams::reserve_cache(mixture_order const& order, std::uint64_t max_bytes) const {
  std::uint64_t total_bytes = 0;
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    auto const& reader = sets_[s]->reader();
    if (reader.remote().cache != nullptr) continue;
    std::uint64_t largest = 0;
    for (auto const& shard : reader.shards())
      if (shard.zip) largest = std::max(largest, shard.raw.bytes + 4 * shard.samples);
    auto const shards = order.open_shards(s) + 2;  // the next epoch may touch one or two more
    auto const needed = largest * std::min<std::uint64_t>(shards, reader.shards().size());
    total_bytes += needed;
    parallel::require(total_bytes <= max_bytes, reader.folder().native(), ": a shuffle block of ",
                      order.block_size(), " samples spans ", shards, " compressed shards, ",
                      total_bytes >> 20, " MiB in memory, more than the ", max_bytes >> 20,
                      " MiB allowed; lower shuffle_block_size or decompress the set");
    reader.grow_cache(needed, largest > 0 ? shards : std::min(shards, max_open_shards()));
  }
}

std::shared_ptr<shard_cache> token_streams::remote_cache() const {
  for (auto const& set : sets_)
    if (auto const& cache = set->reader().remote().cache; cache != nullptr) return cache;
  return nullptr;
}

void token_streams::require_room(mixture_order const& order, std::uint64_t window,
                                 bool wraps) const {
  auto const cache = remote_cache();
  if (cache == nullptr) return;
  std::vector<std::size_t> counts(cache->size());
  for (std::size_t s = 0; s < sets_.size(); ++s) {
    auto const& remote = sets_[s]->reader().remote();
    if (remote.cache == nullptr) continue;
    auto const blocks = static_cast<std::size_t>(window / order.block_size()) + 2;
    counts[remote.set] = order.is_shuffled() ? order.open_shards(s) * blocks
                                             : shards_in_row(sets_[s]->shard_samples(), window);
    if (wraps) counts[remote.set] += 2;  // the next epoch may touch one or two more
  }
  cache->require_room(counts, static_cast<std::size_t>(window),
                      parallel::concat("the ", window, " samples of the batches in flight"));
}

std::vector<shard_location> token_streams::shards_of(
    std::span<sample_location const> samples) const {
  std::vector<shard_location> out;
  std::set<std::pair<std::size_t, std::size_t>> found;
  for (auto const& sample : samples) {
    auto const& reader = sets_[sample.stream]->reader();
    if (reader.remote().cache == nullptr) continue;
    shard_location const location{reader.remote().set, reader.shard_of(sample.sample)};
    if (found.emplace(location.set, location.shard).second) out.push_back(location);
  }
  return out;
}

void token_streams::close_others(std::span<sample_location const> samples) const {
  auto const needed = shards_of(samples);
  for (auto const& set : sets_) {
    std::vector<std::size_t> shards;
    for (auto const& location : needed)
      if (location.set == set->reader().remote().set) shards.push_back(location.shard);
    set->reader().close_others(shards);
  }
}

}  // namespace mpt::data
