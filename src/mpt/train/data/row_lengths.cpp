#include <mpt/train/data/row_lengths.hpp>

#include <numeric>

#include <mpt/finetune/bin_packing.hpp>

namespace mpt {

index row_granule(parallelism_config const& parallelism) {
  auto const& p = parallelism;
  auto const chunks = p.context > 1 ? 2 * index{p.context} : index{1};
  auto const parts = index{p.context} * (p.sequence_parallel ? p.tensor : 1);
  return std::lcm(index{8}, std::lcm(chunks, parts));
}

bool trims_rows(data_config const& data) {
  auto const& examples = data.train_loader.finetuning;
  return examples && examples->trimming != finetune::row_trimming::none;
}

std::vector<index> row_lengths(data_config const& data, parallelism_config const& parallelism) {
  std::vector<index> out{data.train_loader.max_seq_len};
  if (!trims_rows(data)) return out;
  auto const granule = row_granule(parallelism);
  for (auto length = (out.front() - 1) / granule * granule; length > 0; length -= granule)
    out.push_back(length);
  return out;
}

}  // namespace mpt
