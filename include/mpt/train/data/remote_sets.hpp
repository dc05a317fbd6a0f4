// remote_sets: the shard caches of a run's loaders whose `remote` is an address.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <mpt/config/train.hpp>
#include <mpt/data/shard_cache.hpp>
#include <mpt/net/object_store.hpp>

namespace mpt {

/// Gives each loader of `config` with remote streams a cache with the loader's limit, and downloads
/// the indexes of its sets. A stream whose `local` folder holds an index.json without being a cache
/// is a local set, which must be complete. Throws if the folder of a stream without an address is
/// in a cache. Calls `store` only if a stream comes from an object store.
void open_remote_sets(train_config& config, data::shard_cache_options const& options,
                      std::function<net::object_store()> const& store);

/// The set in the cache of `loader` that has this folder; nothing for a local set.
[[nodiscard]] data::cached_set remote_set_of(loader_config const& loader,
                                             std::filesystem::path const& folder);

}  // namespace mpt
