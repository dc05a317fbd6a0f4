// continuation: what a model with elements T needs to go on with texts that it has read the
// beginnings of, and where it leaves the logits of what comes next.
#pragma once

#include <vector>

#include <mpt/model/microbatch.hpp>
#include <parallel/layer/kv_cache.hpp>

namespace mpt {

using parallel::kv_cache;

/// Of one pass. The caches are copies of views: a pass adds rows behind those in use, and does not
/// change how many are.
template <class T>
struct continuation : continued_texts {
  std::vector<std::vector<kv_cache<T>>> caches;  ///< by block that makes keys here, and sequence
  matrix_view<accumulate_t<T>> logits;           ///< [sequences * wanted, V here], where made here
};

}  // namespace mpt
