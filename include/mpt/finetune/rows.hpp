// Rows of one length, with padding, out of examples and bins of them: what a step trains on.
//
// Padding has no label, so no loss, and is a document of its own, which no token attends to when it
// stands in front.
#pragma once

#include <algorithm>
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
  std::vector<std::int32_t> document_begins{};  ///< where in its row a position's example begins
};

enum class padding_side { right, left };

struct row_options {
  std::size_t length = 2048;  ///< of rows: max_seq_len, or what row_length says (row_trimming.hpp)
  std::int32_t pad_id = 0;    ///< the tokenizer's pad token, or its end of text
  padding_side side = padding_side::right;
};

/// One row for each of `bins`, whose numbers are those of `examples`. Error: a bin longer than
/// rows.
[[nodiscard]] inline rows make_rows(std::span<example const> examples, std::span<bin const> bins,
                                    row_options const& options) {
  rows out{.count = bins.size(), .length = options.length};
  auto const size = out.count * out.length;
  out.ids.assign(size, options.pad_id);
  out.labels.assign(size, no_label);
  out.document_begins.assign(size, 0);
  for (std::size_t row = 0; row < bins.size(); ++row) {
    auto const& one = bins[row];
    parallel::require(one.tokens <= out.length, "a row of ", one.tokens,
                      " tokens does not fit into ", out.length);
    auto const pad = out.length - one.tokens;
    auto at = options.side == padding_side::left ? pad : 0;
    for (auto const number : one.examples) {
      auto const& [ids, labels] = examples[number];
      auto const place = static_cast<std::ptrdiff_t>(row * out.length + at);
      std::ranges::copy(ids, out.ids.begin() + place);
      std::ranges::copy(labels, out.labels.begin() + place);
      std::fill_n(out.document_begins.begin() + place, ids.size(), static_cast<std::int32_t>(at));
      at += ids.size();
    }
    if (options.side == padding_side::right)
      std::fill_n(out.document_begins.begin() + static_cast<std::ptrdiff_t>(row * out.length + at),
                  pad, static_cast<std::int32_t>(at));
  }
  return out;
}

}  // namespace mpt::finetune
