#include <mpt/data/order/sample_order.hpp>

#include <numeric>

namespace mpt::data {

sample_order::sample_order(std::span<std::uint64_t const> shard_samples,
                           sample_order_options options, std::uint64_t epoch)
    : options_(options), epoch_(static_cast<std::uint32_t>(epoch)) {
  std::vector<std::uint64_t> first_samples(shard_samples.size());
  std::exclusive_scan(shard_samples.begin(), shard_samples.end(), first_samples.begin(),
                      std::uint64_t{0});
  std::vector<std::size_t> order(shard_samples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (options_.mode == shuffle::blocks)
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw(i)]);
  std::uint64_t total = 0;
  std::uint64_t largest = 1;
  for (auto const shard : order) {
    ends_.push_back(total += shard_samples[shard]);
    first_samples_.push_back(first_samples[shard]);
    largest = std::max(largest, shard_samples[shard]);
  }
  if (options_.block_size == 0) options_.block_size = 4 * largest;
  parallel::require(total / options_.block_size < (std::uint64_t{1} << 32), "shuffle_block_size ",
                    options_.block_size, " is too small for ", total, " samples");
}

std::uint64_t sample_order::operator()(std::uint64_t position) const {
  parallel::require(position < size(), "position ", position, " in an epoch of ", size(),
                    " samples");
  if (options_.mode == shuffle::blocks) {
    auto const block = position / options_.block_size;
    auto const start = block * options_.block_size;
    auto const length = std::min(options_.block_size, size() - start);
    position = start + permuted(position - start, length, options_.seed, epoch_,
                                static_cast<std::uint32_t>(block));
  }
  auto const shard = static_cast<std::size_t>(
      std::upper_bound(ends_.begin(), ends_.end(), position) - ends_.begin());
  return first_samples_[shard] + position - (shard == 0 ? 0 : ends_[shard - 1]);
}

std::size_t sample_order::shards_in_block() const {
  if (options_.mode == shuffle::none) return 1;
  std::size_t max_shards = 0;
  std::size_t begin = 0;
  for (std::uint64_t start = 0; start < size(); start += options_.block_size) {
    auto const last = std::min(start + options_.block_size, size()) - 1;
    while (ends_[begin] <= start) ++begin;
    std::size_t end = begin;
    while (ends_[end] <= last) ++end;
    max_shards = std::max(max_shards, end - begin + 1);
  }
  return max_shards;
}

std::size_t sample_order::draw(std::size_t limit) const {
  auto const words = parallel::philox4x32(
      {static_cast<std::uint32_t>(limit), static_cast<std::uint32_t>(std::uint64_t{limit} >> 32),
       epoch_, parallel::stream_id("sample_order/shards")},
      {static_cast<std::uint32_t>(options_.seed), static_cast<std::uint32_t>(options_.seed >> 32)});
  return static_cast<std::size_t>((std::uint64_t{words[1]} << 32 | words[0]) % limit);
}

}  // namespace mpt::data
