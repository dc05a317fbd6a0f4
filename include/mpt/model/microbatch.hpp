// microbatch: what the model is trained on at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <mpt/vocabulary.hpp>
#include <parallel/core/packed_documents.hpp>

namespace mpt {

/// Texts that a microbatch's sequences go on from (continuation.hpp).
struct continued_texts {
  std::vector<index> lengths;  ///< tokens read before, of each sequence
  index wanted = 1;            ///< rows whose logits are asked for: the last of each sequence
};

/// Token ids and, for each, the id that follows (-100: no loss), row by row. A rank that holds part
/// of every sequence has the rows of that part (context_parallel::sequence_partition), and `length`
/// of each.
struct microbatch {
  vector_view<std::int32_t const> ids;     // [sequences * length]
  vector_view<std::int32_t const> labels;  // [sequences * length], or empty for generation
  index sequences = 0;
  index length = 0;
  std::int64_t loss_tokens = 0;  // labels that are not -100
  // Where in its sequence each token's document begins, of whole sequences; empty: at 0
  parallel::packed_documents document_begins = {};
  // Set for generation: logits are made instead of a loss; a continuation<T> of a model<T>
  continued_texts const* continues = nullptr;
};

}  // namespace mpt
