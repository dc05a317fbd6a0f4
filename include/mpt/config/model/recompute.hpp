// recomputation: the parts of a block that recompute their activations in the backward pass instead
// of storing them. It changes memory and time, but no result.
#pragma once

#include <cstddef>
#include <vector>

namespace mpt {

/// The recomputed parts of one block. The flag of a part is not set if the flag of a larger part
/// that contains it is set.
struct recomputation {
  bool block = false;             ///< the whole block: stores one activation
  bool attention_branch = false;  ///< the norm, attention, dropout and residual connection
  bool attention = false;         ///< attention alone
  bool feed_forward_branch =
      false;  ///< the norm, feed-forward layer, dropout and residual connection
  bool feed_forward = false;
  /// Only results that cost little to recompute: those of the norms and of the activation function.
  bool cheap = false;

  friend bool operator==(recomputation const&, recomputation const&) = default;
};

/// The recomputation of each block; empty: every activation is stored.
using block_recomputation = std::vector<recomputation>;

/// Recomputation of `blocks` whole blocks.
[[nodiscard]] block_recomputation recompute_all(std::size_t blocks);

/// `parts`, extended to `blocks` blocks, with the cheap parts of every block recomputed too.
[[nodiscard]] block_recomputation with_cheap_recomputation(block_recomputation parts,
                                                           std::size_t blocks);

}  // namespace mpt
