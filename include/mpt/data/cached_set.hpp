// cached_set: a set whose shards come through a cache (shard_cache), and a place in such sets.
#pragma once

#include <compare>
#include <cstddef>
#include <memory>

namespace mpt::data {

class shard_cache;

/// A shard of one of a cache's sets, by their numbers.
struct shard_location {
  std::size_t set;
  std::size_t shard;
  friend auto operator<=>(shard_location const&, shard_location const&) = default;
};

/// A set in a cache; without a cache: a set that is not remote.
struct cached_set {
  std::shared_ptr<shard_cache> cache{};
  std::size_t set = 0;
};

}  // namespace mpt::data
