// the branch ends in a partial sum; put tensor::reduce after it
#include "../layers.hpp"

void run(messages::context& c, messages::matrix x) {
  auto const wrong = parallel::residual(
      parallel::sequential(messages::norm{}, messages::gather{}, messages::sliced{}));
  decltype(wrong)::saved state;
  static_cast<void>(wrong.forward(c, x, state));
}
