// Rows of one length with padding, made from bins of examples: the batch that a step trains on.
//
// Padding has no label, so it adds no loss. It is its own document, so no token attends to
// padding at the left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mpt/finetune/bin_packing.hpp>
#include <mpt/finetune/example.hpp>

namespace mpt::finetune {

/// Rows [count, length].
struct rows {
  std::size_t count = 0;
  std::size_t length = 0;
  std::vector<std::int32_t> ids{};
  std::vector<std::int32_t> labels{};           ///< the id that each position predicts, or no_label
  std::vector<std::int32_t> document_begins{};  ///< the column at which a position's example begins
};

/// The side on which rows are filled up.
enum class padding_side { right, left };

/// The length and padding of rows.
struct row_options {
  std::size_t length = 2048;  ///< the row length: max_seq_len, or row_length (bin_packing.hpp)
  std::int32_t pad_id = 0;    ///< the tokenizer's pad token, or its end of text
  padding_side side = padding_side::right;
};

/// One row for each of `bins`, which hold indices into `examples`. Error: a bin with more tokens
/// than a row.
[[nodiscard]] rows make_rows(std::span<example const> examples, std::span<bin const> bins,
                             row_options const& options);

}  // namespace mpt::finetune
