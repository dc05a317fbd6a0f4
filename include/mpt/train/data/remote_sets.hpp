// remote_sets: the shard caches of a run's loaders whose `remote` is an address.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/data/shard_cache.hpp>
#include <mpt/net/object_store.hpp>

namespace mpt {

/// The shard caches of a run's loaders, null for a loader without remote streams.
struct remote_sets {
  std::shared_ptr<data::shard_cache> train{};
  std::vector<std::shared_ptr<data::shard_cache>> evaluation{};  ///< in the order of eval_loaders

  /// The cache of evaluation loader `i`; null if there is none.
  [[nodiscard]] std::shared_ptr<data::shard_cache> evaluation_cache(std::size_t i) const {
    return i < evaluation.size() ? evaluation[i] : nullptr;
  }
};

/// Opens a cache with the loader's limit for each loader of `config` with remote streams, and
/// downloads the indexes of its sets. A stream whose `local` folder holds an index.json without
/// being a cache is a local set, which must be complete. Throws if the folder of a stream without
/// an address is in a cache. Calls `store` only if a stream comes from an object store.
[[nodiscard]] remote_sets open_remote_sets(data_config const& data,
                                           data::shard_cache_options const& options,
                                           std::function<net::object_store()> const& store);

/// The set in `cache`, which may be null, that has this folder; nothing for a local set.
[[nodiscard]] data::cached_set remote_set_of(std::shared_ptr<data::shard_cache> const& cache,
                                             std::filesystem::path const& folder);

}  // namespace mpt
