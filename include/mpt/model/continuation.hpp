// continuation: the state from which a model with elements T continues texts whose beginnings it
// has read, and the memory to which it writes the logits of the next tokens.
#pragma once

#include <vector>

#include <mpt/model/microbatch.hpp>
#include <parallel/layer/kv_cache.hpp>

namespace mpt {

using parallel::kv_cache;

/// The state of one pass. The caches are copies of views: a pass writes rows behind those in use
/// and does not change their number.
template <class T>
struct continuation : continued_texts {
  std::vector<std::vector<kv_cache<T>>> caches;  ///< by block and sequence; empty: no local keys
  matrix_view<accumulate_t<T>> logits;  ///< [sequences * wanted, local V], on the last stage
};

}  // namespace mpt
