// rank_memory: the memory of a pipeline rank of a planned run, divided into what training programs
// keep in different forms, and its bytes by a program.
#pragma once

#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <parallel/cluster/program_memory.hpp>

namespace mpt {

struct rank_memory {
  double value_bytes = 0;   ///< of parameters, and of buffers for whole ones where they are sharded
  double gradients = 0;     ///< elements
  double states = 0;        ///< parameters whose update the rank computes
  double activations = 0;   ///< bytes, as this library keeps them
  double gathered = 0;      ///< of these, whole inputs of products (sequence parallelism)
  double temporaries = 0;   ///< of these, bytes that no pass leaves to another
  double logits = 0;        ///< of a microbatch and the rank's part of the vocabulary; 0: no head
  double tensor_parts = 1;  ///< into which the vocabulary is divided
  double scores = 0;        ///< of attention, over the blocks that keep their activations
  double residuals = 0;     ///< elements of the residual stream, likewise
};

/// The memory of the pipeline ranks of a run that was planned with elements of two bytes, without
/// `temporaries`.
[[nodiscard]] std::vector<rank_memory> memory_of_ranks(train_config const& config,
                                                       run_plan const& plan);

/// The bytes of a pipeline rank by a program.
[[nodiscard]] double bytes_of(rank_memory const& rank,
                              parallel::cluster::program_memory const& program);

}  // namespace mpt
