// recomputation: which parts of a block make their activations again for the backward pass instead
// of keeping them. It changes memory and time, and no number.
#pragma once

#include <cstddef>
#include <vector>

namespace mpt {

/// Of one block. Parts that another one listed contains are not named beside it.
struct recomputation {
  bool block = false;                ///< all of it: keeps one activation
  bool attention_branch = false;     ///< its norm, attention, dropout and residual connection
  bool attention = false;            ///< attention alone
  bool feed_forward_branch = false;  ///< the same of the feed-forward layer
  bool feed_forward = false;
  /// What is made again costs little: the results of its norms and of its activation function.
  bool cheap = false;

  friend bool operator==(recomputation const&, recomputation const&) = default;
};

/// By block; empty: everything is kept.
using block_recomputation = std::vector<recomputation>;

/// Every part of every block.
[[nodiscard]] block_recomputation recompute_all(std::size_t blocks);

/// `given`, of so many blocks, and what is cheap in every block.
[[nodiscard]] block_recomputation with_cheap_recomputation(block_recomputation parts,
                                                           std::size_t blocks);

}  // namespace mpt
