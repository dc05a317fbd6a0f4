#include <mpt/data/token_streams.hpp>

#include <algorithm>
#include <numeric>

namespace mpt::data {

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
                      ": sequences of ", set->sequence_length(), " tokens beside streams of ",
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

}  // namespace mpt::data
