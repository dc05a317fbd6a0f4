// The lengths that the rows of a run's training batches may have.
#pragma once

#include <numeric>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/finetune/row_trimming.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

/// The lengths of trimmed rows are multiples of this number: of 8, which bounds the number of
/// shapes in a run, and of the number of parts into which ranks divide rows. This is the only
/// difference from LLM Foundry's pad_to_longest.
[[nodiscard]] inline index row_granule(train_config const& config) {
  auto const& p = config.parallelism;
  auto const chunks = p.context > 1 ? 2 * index{p.context} : index{1};
  auto const parts = index{p.context} * (p.sequence_parallel ? p.tensor : 1);
  return std::lcm(index{8}, std::lcm(chunks, parts));
}

/// Whether training rows are trimmed to the length that a batch needs.
[[nodiscard]] inline bool trims_rows(train_config const& config) {
  auto const& examples = config.train_loader.finetuning;
  return examples && examples->trimming != finetune::row_trimming::none;
}

/// The possible row lengths, the longest first.
[[nodiscard]] inline std::vector<index> row_lengths(train_config const& config) {
  std::vector<index> out{config.train_loader.max_seq_len};
  if (!trims_rows(config)) return out;
  auto const granule = row_granule(config);
  for (auto length = (out.front() - 1) / granule * granule; length > 0; length -= granule)
    out.push_back(length);
  return out;
}

}  // namespace mpt
