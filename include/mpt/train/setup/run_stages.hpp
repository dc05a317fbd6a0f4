// The stages of the model on a pipeline rank of a run, and the operations of a batch on it.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include <mpt/config/train.hpp>
#include <mpt/model/model.hpp>
#include <mpt/model/sequences.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/train/plan.hpp>
#include <parallel/train/setup/stage.hpp>

namespace mpt {

/// The stages of the model on a pipeline rank.
[[nodiscard]] train::stages_of_rank stages_of(model_config const& model,
                                              parallelism_config const& parallelism, int rank);

/// Floating-point operations, by name, of the given stages in a batch. `Model`: mpt::model.
template <class Model>
[[nodiscard]] std::map<std::string_view, std::uint64_t> operations_of_batch(
    Model const& net, data_config const& data, parallelism_config const& parallelism,
    batch_split const& split, train::stages_of_rank const& stages) {
  auto const length = data.train_loader.max_seq_len / parallelism.context;
  auto out =
      train::count_operations(net, sequences::shape_of(split.microbatch, length), stages.ranges());
  for (auto& [name, number] : out) number *= static_cast<std::uint64_t>(split.accumulation);
  return out;
}

}  // namespace mpt
