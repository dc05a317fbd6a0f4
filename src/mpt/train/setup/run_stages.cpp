#include <mpt/train/setup/run_stages.hpp>

#include <cstddef>

namespace mpt {

train::stages_of_rank stages_of(model_config const& model, parallelism_config const& parallelism,
                                int rank) {
  return {parallelism.pipeline_options(), rank, parallelism.pipeline,
          static_cast<std::size_t>(model.n_layers)};
}

}  // namespace mpt
