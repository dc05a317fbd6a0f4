#include <mpt/data/mixture_order.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace mpt::data {

mixture_order::mixture_order(std::span<stream_shape const> shapes,
                             sample_order_options const& options, std::uint64_t epoch)
    : options_(options), epoch_(static_cast<std::uint32_t>(epoch)) {
  std::uint64_t largest_shard = 1;
  for (std::size_t s = 0; s < shapes.size(); ++s) {
    auto const& samples = shapes[s].shard_samples;
    auto own = options;
    own.seed = options.seed ^ (s * 0x9E3779B97F4A7C15U);  // stream 0 keeps the seed
    row stream{.chosen = shapes[s].chosen,
               .size = std::accumulate(samples.begin(), samples.end(), std::uint64_t{0}),
               .first = epoch * shapes[s].chosen};
    if (stream.chosen > 0) {
      parallel::require(stream.size > 0, "a stream without samples");
      auto const end = (stream.first + stream.chosen - 1) / stream.size;
      for (auto pass = stream.first / stream.size; pass <= end; ++pass)
        stream.passes.emplace_back(samples, own, pass);
    }
    for (auto const shard : samples) largest_shard = std::max(largest_shard, shard);
    size_ += stream.chosen;
    rows_.push_back(std::move(stream));
  }
  if (options_.block_size == 0) options_.block_size = 4 * largest_shard;
  parallel::require(rows_.size() == 1 || size_ < std::uint64_t{1} << 32, "an epoch of ", size_,
                    " samples of several streams; at most 2^32 - 1 are possible");
}

sample_place mixture_order::operator()(std::uint64_t position) const {
  parallel::require(position < size_, "position ", position, " in an epoch of ", size_, " samples");
  if (rows_.size() == 1) return at(0, position);
  std::size_t s = 0;
  if (options_.mode == shuffle::none) {
    while (position >= rows_[s].chosen) position -= rows_[s++].chosen;
    return at(s, position);
  }
  auto block = position / options_.block_size;  // the block after it may begin before x = b B
  while (start(block + 1) <= position) ++block;
  auto const begin = start(block);
  auto in_block = permuted(position - begin, start(block + 1) - begin, options_.seed, epoch_,
                           static_cast<std::uint32_t>(block) | mixing);
  for (;; ++s) {
    auto const before = before_block(s, block);
    auto const count = before_block(s, block + 1) - before;
    if (in_block < count) return at(s, before + in_block);
    in_block -= count;
  }
}

std::size_t mixture_order::open_shards(std::size_t s) const {
  std::size_t most = 1;
  for (auto const& pass : rows_[s].passes) most = std::max(most, pass.shards_in_block());
  return rows_.size() == 1 ? most : 2 * most;  // a block of ours may lie across two of the row's
}

std::uint64_t mixture_order::before_block(std::size_t s, std::uint64_t block) const {
  return std::min(block * options_.block_size, size_) * rows_[s].chosen / size_;
}

std::uint64_t mixture_order::start(std::uint64_t block) const {
  std::uint64_t sum = 0;
  for (std::size_t s = 0; s < rows_.size(); ++s) sum += before_block(s, block);
  return sum;
}

sample_place mixture_order::at(std::size_t s, std::uint64_t drawn) const {
  auto const& stream = rows_[s];
  auto const place = stream.first + drawn;
  auto const pass = place / stream.size - stream.first / stream.size;
  return {s, stream.passes[static_cast<std::size_t>(pass)](place % stream.size)};
}

}  // namespace mpt::data
