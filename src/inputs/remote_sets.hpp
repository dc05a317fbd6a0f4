// The remote MDS sets of a run: their shards come from web servers and object stores.
#pragma once

#include <mpt/config/train.hpp>
#include <mpt/train/data/remote_sets.hpp>

namespace apps {

/// Opens the caches of the loaders whose `remote` is an address.
[[nodiscard]] mpt::remote_sets open_remote_sets(mpt::data_config const& data);

}  // namespace apps
