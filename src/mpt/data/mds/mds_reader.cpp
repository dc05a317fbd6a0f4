#include <mpt/data/mds/mds_reader.hpp>

#include <algorithm>
#include <exception>
#include <utility>

#include <mpt/data/hash.hpp>
#include <mpt/data/shard_cache.hpp>

namespace mpt::data {

std::size_t max_open_shards() {
  ::rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return std::max<std::size_t>(8, static_cast<std::size_t>(limit.rlim_cur) / 64);
}

mds_reader::mds_reader(std::filesystem::path folder, mds_reader_options options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  if (!options_.split.empty()) {
    parallel::require(is_plain_path(options_.split), "split '", options_.split,
                      "' is not the name of a sub-folder");
    folder_ /= options_.split;
  }
  auto const index = folder_ / "index.json";
  parallel::require(std::filesystem::exists(index), index.native(),
                    ": not found, so this is not a finished MDS set; name the folder (and split) "
                    "that holds index.json, or let prepare finish");
  shards_ = parse_mds_index(parallel::read_text_file(index, max_mds_index_bytes), index.native());
  if (options_.remote.cache != nullptr) {
    options_.cache_shards = 1;
    for (auto& shard : shards_) shard.zip.reset();  // the cache decompresses
  }
  ends_.reserve(shards_.size());
  is_checked_.resize(shards_.size());
  std::uint64_t total = 0;
  for (auto const& shard : shards_) ends_.push_back(total += shard.samples);
}

mds_sample mds_reader::sample(std::uint64_t index, std::stop_token const& stop) const {
  parallel::require(index < size(), folder_.native(), ": there is no sample ", index,
                    ", since the set has ", size(), " samples");
  auto const shard = shard_of(index);
  return open(shard, stop)->sample(index - (ends_[shard] - shards_[shard].samples));
}

std::size_t mds_reader::shard_of(std::uint64_t index) const {
  return static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) -
                                  ends_.begin());
}

void mds_reader::close_others(std::span<std::size_t const> shards) const {
  if (options_.remote.cache == nullptr) return;
  std::scoped_lock const lock(mutex_);
  options_.cache_shards = std::clamp<std::size_t>(shards.size(), 1, max_open_shards() / 2);
  std::vector<std::size_t> closed;
  for (auto const shard : recently_used_)
    if (std::ranges::find(shards, shard) == shards.end()) closed.push_back(shard);
  for (auto const shard : closed) forget(shard);
}

void mds_reader::grow_cache(std::uint64_t bytes, std::size_t shards) const {
  std::scoped_lock const lock(mutex_);
  options_.cache_bytes = std::max(options_.cache_bytes, bytes);
  options_.cache_shards = std::max(options_.cache_shards, shards);
}

mds_verification mds_reader::verify() const {
  mds_verification out;
  for (auto const& shard : shards_) {
    mds_shard_file const file(folder_, shard, true);
    for (std::uint64_t i = 0; i < file.size(); ++i) (void)file.sample(i);
    ++out.shards;
    out.samples += file.size();
    for (auto const& [algorithm, digest] : shard.raw.hashes)
      if (!is_known_hash(algorithm) && std::find(out.unverified.begin(), out.unverified.end(),
                                                 algorithm) == out.unverified.end())
        out.unverified.push_back(algorithm);
  }
  return out;
}

mds_reader::shard_pointer mds_reader::open(std::size_t shard, std::stop_token const& stop) const {
  std::unique_lock lock(mutex_);
  if (auto const found = cache_.find(shard); found != cache_.end()) {
    recently_used_.splice(recently_used_.begin(), recently_used_, found->second.use_position);
    auto const file = found->second.file;
    lock.unlock();
    return file.get();
  }
  if (options_.remote.cache != nullptr)  // its place in the cache may be that of the new shard
    while (!recently_used_.empty() && recently_used_.size() >= options_.cache_shards)
      forget(recently_used_.back());
  std::promise<shard_pointer> promise;
  recently_used_.push_front(shard);
  cache_[shard] = {promise.get_future().share(), recently_used_.begin(), 0};
  bool const check_hashes = !is_checked_[shard];
  lock.unlock();
  try {
    auto file = open_file(shard, check_hashes, stop);
    promise.set_value(file);
    lock.lock();
    is_checked_[shard] = true;
    if (auto const found = cache_.find(shard); found != cache_.end()) {
      used_bytes_ += file->memory() - found->second.memory;
      found->second.memory = file->memory();
    }
    evict();
    return file;
  } catch (...) {
    promise.set_exception(std::current_exception());
    lock.lock();
    forget(shard);
    throw;
  }
}

mds_reader::shard_pointer mds_reader::open_file(std::size_t shard, bool check_hashes,
                                                std::stop_token const& stop) const {
  auto const& remote = options_.remote;
  if (remote.cache == nullptr)
    return std::make_shared<mds_shard_file const>(folder_, shards_[shard], check_hashes);
  struct held_file {
    std::shared_ptr<void const> lease;
    mds_shard_file file;
  };
  auto lease = remote.cache->hold({remote.set, shard}, stop);  // the cache has checked the file
  auto held = std::make_shared<held_file>(
      held_file{std::move(lease), mds_shard_file(folder_, shards_[shard], false)});
  return {held, &held->file};
}

void mds_reader::forget(std::size_t shard) const {
  auto const found = cache_.find(shard);
  if (found == cache_.end()) return;
  used_bytes_ -= found->second.memory;
  recently_used_.erase(found->second.use_position);
  cache_.erase(found);
}

void mds_reader::evict() const {
  while (recently_used_.size() > 1 &&
         (used_bytes_ > options_.cache_bytes || recently_used_.size() > options_.cache_shards))
    forget(recently_used_.back());
}

}  // namespace mpt::data
