#include <mpt/config/run/parallelism.hpp>

namespace mpt {

parallel::training_layout parallelism_config::layout_of_model() const {
  namespace axis = parallel::axis;
  return parallel::training_layout{}
      .with_degree<axis::pipeline>(pipeline)
      .with_degree<axis::context>(context)
      .with_degree<axis::tensor>(tensor);
}

int parallelism_config::least_ranks() const {
  namespace axis = parallel::axis;
  return layout_of_model()
      .with_degree<axis::shard>(shard.value_or(1))
      .with_degree<axis::replicate>(replicate.value_or(1))
      .ranks();
}

parallel::train::pipeline_options parallelism_config::pipeline_options() const {
  if (pipeline == 1) return {.overlap_weight_gradients = overlap_weight_gradients};
  return {.schedule = schedule,
          .stages_per_rank = stages_per_rank,
          .blocks = blocks_by_stage,
          .overlap_weight_gradients = overlap_weight_gradients};
}

}  // namespace mpt
