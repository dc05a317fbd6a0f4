// Random access to the samples of an MDS set in a local folder.
//
// Opening reads index.json only. Shards are opened when first touched and kept, least recently used
// out first, within a budget of bytes (decompressed shards are what fills it). Nothing is written,
// and no shared memory is named: ranks of one process may share one reader (it is thread-safe),
// ranks of several processes each have theirs. Two threads that miss the same shard decompress it
// once. A shard that the index has checksums of is compared with them when it is first opened.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <mpt/data/mds_shard_file.hpp>

namespace mpt::data {

struct mds_reader_options {
  std::string split{};                                 ///< sub-folder; empty: the folder itself
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;  ///< of open shards; one is always kept
  std::size_t cache_shards = 64;                       ///< open at once (each raw one holds a file)
};

/// What `mds_reader::verify` found.
struct mds_verification {
  std::uint64_t shards = 0;
  std::uint64_t samples = 0;
  std::vector<std::string> unverified;  ///< hash algorithms in the index that are not known here
};

/// Shards of one set whose files may stay open: a share of what this process may open, which ranks
/// that are threads, and their streams, divide.
[[nodiscard]] inline std::size_t most_open_shards() {
  ::rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return std::max<std::size_t>(8, static_cast<std::size_t>(limit.rlim_cur) / 64);
}

class mds_reader {
 public:
  /// Opens `folder`/`split`; throws when index.json is absent or wrong.
  explicit mds_reader(std::filesystem::path folder, mds_reader_options options = {})
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
    constexpr std::uint64_t max_index = std::uint64_t{1} << 30;
    shards_ = parse_mds_index(parallel::read_text_file(index, max_index), index.native());
    ends_.reserve(shards_.size());
    is_checked_.resize(shards_.size());
    std::uint64_t total = 0;
    for (auto const& shard : shards_) ends_.push_back(total += shard.samples);
  }

  mds_reader(mds_reader const&) = delete;  // samples point into shards_
  mds_reader& operator=(mds_reader const&) = delete;

  [[nodiscard]] std::filesystem::path const& folder() const { return folder_; }
  /// Number of samples.
  [[nodiscard]] std::uint64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::vector<mds_shard> const& shards() const { return shards_; }

  /// Sample `at`, counted through all shards in the order of the index. Valid while this lives.
  [[nodiscard]] mds_sample sample(std::uint64_t at) const {
    parallel::require(at < size(), folder_.native(), ": sample ", at, " of ", size());
    auto const shard =
        static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), at) - ends_.begin());
    return open(shard)->sample(at - (ends_[shard] - shards_[shard].samples));
  }

  /// Raises the budget of the cache to at least `bytes` and `shards`.
  void grow_cache(std::uint64_t bytes, std::size_t shards) const {
    std::scoped_lock const lock(mutex_);
    options_.cache_bytes = std::max(options_.cache_bytes, bytes);
    options_.cache_shards = std::max(options_.cache_shards, shards);
  }

  /// Reads everything once: sizes, headers, every sample's columns and all known checksums.
  [[nodiscard]] mds_verification verify() const {
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

 private:
  using opened = std::shared_ptr<mds_shard_file const>;

  struct entry {
    std::shared_future<opened> file;
    std::list<std::size_t>::iterator place;
    std::uint64_t memory = 0;
  };

  [[nodiscard]] opened open(std::size_t shard) const {
    std::unique_lock lock(mutex_);
    if (auto const found = cache_.find(shard); found != cache_.end()) {
      recent_.splice(recent_.begin(), recent_, found->second.place);
      auto const file = found->second.file;
      lock.unlock();
      return file.get();
    }
    std::promise<opened> promise;
    recent_.push_front(shard);
    cache_[shard] = {promise.get_future().share(), recent_.begin(), 0};
    bool const first = !is_checked_[shard];
    lock.unlock();
    try {
      auto file = std::make_shared<mds_shard_file const>(folder_, shards_[shard], first);
      promise.set_value(file);
      lock.lock();
      is_checked_[shard] = true;
      if (auto const found = cache_.find(shard); found != cache_.end()) {
        used_ += file->memory() - found->second.memory;
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

  void forget(std::size_t shard) const {
    auto const found = cache_.find(shard);
    if (found == cache_.end()) return;
    used_ -= found->second.memory;
    recent_.erase(found->second.place);
    cache_.erase(found);
  }

  void evict() const {
    while (recent_.size() > 1 &&
           (used_ > options_.cache_bytes || recent_.size() > options_.cache_shards))
      forget(recent_.back());
  }

  std::filesystem::path folder_;
  mutable mds_reader_options options_;
  std::vector<mds_shard> shards_;
  std::vector<std::uint64_t> ends_;
  mutable std::mutex mutex_;
  mutable std::vector<bool> is_checked_;  // by shard: its checksums
  mutable std::list<std::size_t> recent_;
  mutable std::unordered_map<std::size_t, entry> cache_;
  mutable std::uint64_t used_ = 0;
};

}  // namespace mpt::data
