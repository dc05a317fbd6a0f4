// Random access to the samples of an MDS set in a local folder.
//
// Opening reads index.json only. Shards are opened when first touched and kept, least recently used
// out first, within a budget of bytes (decompressed shards are what fills it). Nothing is written,
// and no shared memory is named: ranks of one process may share one reader (it is thread-safe),
// ranks of several processes each have theirs. Two threads that miss the same shard decompress it
// once. A shard that the index has checksums of is compared with them when it is first opened.
#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
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
[[nodiscard]] std::size_t most_open_shards();

class mds_reader {
 public:
  /// Opens `folder`/`split`; throws when index.json is absent or wrong.
  explicit mds_reader(std::filesystem::path folder, mds_reader_options options = {});

  mds_reader(mds_reader const&) = delete;  // samples point into shards_
  mds_reader& operator=(mds_reader const&) = delete;

  [[nodiscard]] std::filesystem::path const& folder() const { return folder_; }
  /// Number of samples.
  [[nodiscard]] std::uint64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::vector<mds_shard> const& shards() const { return shards_; }

  /// Sample `at`, counted through all shards in the order of the index. Valid while this lives.
  [[nodiscard]] mds_sample sample(std::uint64_t at) const;

  /// Raises the budget of the cache to at least `bytes` and `shards`.
  void grow_cache(std::uint64_t bytes, std::size_t shards) const;

  /// Reads everything once: sizes, headers, every sample's columns and all known checksums.
  [[nodiscard]] mds_verification verify() const;

 private:
  using opened = std::shared_ptr<mds_shard_file const>;

  struct entry {
    std::shared_future<opened> file;
    std::list<std::size_t>::iterator place;
    std::uint64_t memory = 0;
  };

  [[nodiscard]] opened open(std::size_t shard) const;

  void forget(std::size_t shard) const;

  void evict() const;

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
