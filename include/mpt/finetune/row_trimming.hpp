// How long the rows of a batch of examples are: max_seq_len, or as long as the batch needs.
//
// The rule is that of LLM Foundry's collator, for the global batch as a whole. Padding has no label
// and is attended to by none, so the loss is the same; what falls away is its computation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <mpt/finetune/bin_packing.hpp>

namespace mpt::finetune {

enum class row_trimming : std::uint8_t {
  none,         ///< max_seq_len
  to_multiple,  ///< the longest, up to a multiple of 8, but for a run's first (allow_pad_trimming)
  to_longest,   ///< the longest (pad_to_longest)
};

/// The length of the rows of batch `batch` of a run, which holds `bins`; at most max_seq_len, or a
/// multiple of `granule`.
[[nodiscard]] std::size_t row_length(std::span<bin const> bins, std::size_t max_seq_len,
                                     row_trimming trimming, std::size_t batch,
                                     std::size_t granule = 1);

}  // namespace mpt::finetune
