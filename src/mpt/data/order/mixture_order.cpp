#include <mpt/data/order/mixture_order.hpp>

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
    auto stream_options = options;
    stream_options.seed = options.seed ^ (s * 0x9E3779B97F4A7C15U);  // stream 0 keeps the seed
    stream_epoch stream{.chosen = shapes[s].chosen,
                        .size = std::accumulate(samples.begin(), samples.end(), std::uint64_t{0}),
                        .first = epoch * shapes[s].chosen};
    if (stream.chosen > 0) {
      parallel::require(stream.size > 0, "a stream without samples");
      auto const end = (stream.first + stream.chosen - 1) / stream.size;
      for (auto stream_pass = stream.first / stream.size; stream_pass <= end; ++stream_pass)
        stream.stream_orders.emplace_back(samples, stream_options, stream_pass);
    }
    for (auto const shard : samples) largest_shard = std::max(largest_shard, shard);
    size_ += stream.chosen;
    streams_.push_back(std::move(stream));
  }
  if (options_.block_size == 0) options_.block_size = 4 * largest_shard;
  parallel::require(streams_.size() == 1 || size_ < std::uint64_t{1} << 32, "an epoch of ", size_,
                    " samples of several streams; at most 2^32 - 1 are possible");
}

sample_location mixture_order::operator()(std::uint64_t position) const {
  parallel::require(position < size_, "position ", position, " in an epoch of ", size_, " samples");
  if (streams_.size() == 1) return location(0, position);
  std::size_t s = 0;
  if (options_.mode == shuffle::none) {
    while (position >= streams_[s].chosen) position -= streams_[s++].chosen;
    return location(s, position);
  }
  auto block = position / options_.block_size;  // the block after it may begin before x = b B
  while (block_start(block + 1) <= position) ++block;
  auto const begin = block_start(block);
  auto in_block = permuted(position - begin, block_start(block + 1) - begin, options_.seed, epoch_,
                           static_cast<std::uint32_t>(block) | mixing_stream);
  for (;; ++s) {
    auto const samples_so_far = samples_before(s, block);
    auto const count = samples_before(s, block + 1) - samples_so_far;
    if (in_block < count) return location(s, samples_so_far + in_block);
    in_block -= count;
  }
}

std::size_t mixture_order::open_shards(std::size_t s) const {
  std::size_t max_shards = 1;
  for (auto const& order : streams_[s].stream_orders)
    max_shards = std::max(max_shards, order.shards_in_block());
  return streams_.size() == 1
             ? max_shards
             : 2 * max_shards;  // a block of the mixture may span two blocks of the stream
}

std::uint64_t mixture_order::samples_before(std::size_t s, std::uint64_t block) const {
  return std::min(block * options_.block_size, size_) * streams_[s].chosen / size_;
}

std::uint64_t mixture_order::block_start(std::uint64_t block) const {
  std::uint64_t sum = 0;
  for (std::size_t s = 0; s < streams_.size(); ++s) sum += samples_before(s, block);
  return sum;
}

sample_location mixture_order::location(std::size_t s, std::uint64_t drawn) const {
  auto const& stream = streams_[s];
  auto const position = stream.first + drawn;
  auto const pass = position / stream.size - stream.first / stream.size;
  return {s, stream.stream_orders[static_cast<std::size_t>(pass)](position % stream.size)};
}

}  // namespace mpt::data
