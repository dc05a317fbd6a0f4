// microbatch: the sequences that pass through the model together.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <mpt/vocabulary.hpp>
#include <parallel/core/packed_documents.hpp>

namespace mpt {

/// Texts that a microbatch's sequences continue (`continuation` in model.hpp).
struct continued_texts {
  std::vector<index> lengths;  ///< tokens of each sequence that were read by earlier passes
  index wanted = 1;            ///< logits are computed for this many last rows of each sequence
};

/// Token ids and, for each, the id that follows it (-100: no loss), row by row. A rank that holds a
/// part of every sequence has the rows of that part (context_parallel::sequence_partition), and
/// `length` rows of each sequence.
struct microbatch {
  vector_view<std::int32_t const> ids;     ///< [sequences * length]
  vector_view<std::int32_t const> labels;  ///< [sequences * length], or empty for generation
  index sequences = 0;
  index length = 0;
  std::int64_t loss_tokens = 0;                        ///< labels that are not -100
  std::span<std::int32_t const> sequence_tokens = {};  ///< the same of each complete sequence
  /// For each token of the complete sequences, the position at which its document begins; empty: 0
  parallel::packed_documents document_begins = {};
  /// Set for generation, to a continuation<T> for a model<T>: the model computes logits, no loss
  continued_texts const* continues = nullptr;
};

}  // namespace mpt
