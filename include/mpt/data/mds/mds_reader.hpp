// Random access to the samples of an MDS set in a local folder.
//
// Opening reads index.json only. Shards are opened when first touched and cached within a budget of
// bytes, which decompressed shards use up; the least recently used shard is evicted first. Nothing
// is written, and there is no named shared memory: ranks of one process may share one reader (it is
// thread-safe), and each process has its own. Two threads that miss the same shard decompress it
// once. When a shard is first opened, it is compared with the checksums in the index, if any.
// Shards of a remote set come through a shard_cache, and stay in its folder while they are open.
#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include <mpt/data/cached_set.hpp>
#include <mpt/data/mds/mds_shard_file.hpp>

namespace mpt::data {

struct mds_reader_options {
  std::string split{};                                 ///< sub-folder; empty: the folder itself
  std::uint64_t cache_bytes = std::uint64_t{1} << 30;  ///< of open shards; one shard always stays
  std::size_t cache_shards = 64;  ///< open at once (each raw shard is an open file)
  cached_set remote{};            ///< the set in a cache whose folder this is
};

/// The result of `mds_reader::verify`.
struct mds_verification {
  std::uint64_t shards = 0;
  std::uint64_t samples = 0;
  std::vector<std::string> unverified;  ///< hash algorithms in the index that are not supported
};

/// The number of shards of one set whose files may stay open: a share of the process's limit of
/// open files, which all ranks of the process (as threads) and their streams share.
[[nodiscard]] std::size_t max_open_shards();

class mds_reader {
 public:
  /// Opens `folder`/`split`; throws when index.json is absent or wrong.
  explicit mds_reader(std::filesystem::path folder, mds_reader_options options = {});

  mds_reader(mds_reader&&) = delete;  // samples point into shards_

  [[nodiscard]] std::filesystem::path const& folder() const { return folder_; }
  /// Number of samples.
  [[nodiscard]] std::uint64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::vector<mds_shard> const& shards() const { return shards_; }

  /// Sample `index` of the set, counted through all shards in the order of the index. Valid during
  /// the lifetime of the reader. `stop` ends the wait for a shard of a remote set, in an error.
  [[nodiscard]] mds_sample sample(std::uint64_t index, std::stop_token const& stop = {}) const;

  /// The set in a shard_cache; without a cache for a local set.
  [[nodiscard]] cached_set const& remote() const { return options_.remote; }

  /// The shard that holds sample `index`.
  [[nodiscard]] std::size_t shard_of(std::uint64_t index) const;

  /// In a remote set, closes all shards but `shards`, which may stay open together.
  void close_others(std::span<std::size_t const> shards) const;

  /// Raises the budget of the cache to at least `bytes` and `shards`.
  void grow_cache(std::uint64_t bytes, std::size_t shards) const;

  /// Reads everything once and checks sizes, headers, the columns of every sample and all checksums
  /// of supported algorithms.
  [[nodiscard]] mds_verification verify() const;

 private:
  using shard_pointer = std::shared_ptr<mds_shard_file const>;

  struct entry {
    std::shared_future<shard_pointer> file;
    std::list<std::size_t>::iterator use_position;
    std::uint64_t memory = 0;
  };

  [[nodiscard]] shard_pointer open(std::size_t shard, std::stop_token const& stop) const;

  [[nodiscard]] shard_pointer open_file(std::size_t shard, bool check_hashes,
                                        std::stop_token const& stop) const;

  void forget(std::size_t shard) const;

  void evict() const;

  std::filesystem::path folder_;
  mutable mds_reader_options options_;
  std::vector<mds_shard> shards_;
  std::vector<std::uint64_t> ends_;
  mutable std::mutex mutex_;
  mutable std::vector<bool> is_checked_;  // by shard: its checksums have been checked
  mutable std::list<std::size_t> recently_used_;
  mutable std::unordered_map<std::size_t, entry> cache_;
  mutable std::uint64_t used_bytes_ = 0;
};

}  // namespace mpt::data
