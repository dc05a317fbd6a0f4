// The length of the rows of a batch of examples: max_seq_len, or as long as the batch needs.
//
// The rule is that of LLM Foundry's collator, for the global batch as a whole. Padding has no label
// and no token attends to it, so trimming saves computation and leaves the loss unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <mpt/finetune/bin_packing.hpp>

namespace mpt::finetune {

enum class row_trimming : std::uint8_t {
  none,         ///< max_seq_len
  to_multiple,  ///< the longest row, rounded up to a multiple of 8; max_seq_len in a run's first
                ///< batch (allow_pad_trimming)
  to_longest,   ///< the longest row (pad_to_longest)
};

/// The length of the rows of a run's batch number `batch`, which holds `bins`: max_seq_len, or a
/// smaller multiple of `granule`.
[[nodiscard]] std::size_t row_length(std::span<bin const> bins, std::size_t max_seq_len,
                                     row_trimming trimming, std::size_t batch,
                                     std::size_t granule = 1);

}  // namespace mpt::finetune
