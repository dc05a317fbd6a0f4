// some of the columns (this rank's heads or hidden units) go into a layer that takes all of them
// The attention of docs/examples/llama.cpp, which docs/guide.md shows.
#include "../layers.hpp"

#include <parallel/context_parallel/attention.hpp>

using attention =
    parallel::context_parallel::attention<float, messages::communicator, messages::column_linear,
                                          parallel::linear<float>>;
using branch = parallel::residual<parallel::sequential<parallel::norm<float>, attention>>;

void run(messages::context& c, messages::matrix x) {
  branch const wrong;
  branch::saved state;
  static_cast<void>(wrong.forward(c, x, state));
}
