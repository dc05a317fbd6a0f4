// The remote MDS sets of a run: their shards come from web servers and object stores.
#pragma once

#include <mpt/config/train.hpp>

namespace apps {

/// Opens the caches of the loaders whose `remote` is an address.
void open_remote_sets(mpt::train_config& config);

}  // namespace apps
