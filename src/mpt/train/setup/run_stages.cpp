#include <mpt/train/setup/run_stages.hpp>

#include <cstddef>

namespace mpt {

train::stages_of_rank stages_of(train_config const& config, int rank) {
  return {config.parallelism.pipeline_options(), rank, config.parallelism.pipeline,
          static_cast<std::size_t>(config.model.n_layers)};
}

}  // namespace mpt
