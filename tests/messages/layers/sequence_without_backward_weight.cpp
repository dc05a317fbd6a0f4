// a layer has no backward_weight(context, saved)
#include "../layers.hpp"

struct fixed : messages::norm {
  void backward_weight() = delete;
};

void run(messages::context& c) {
  auto const wrong = parallel::residual(parallel::sequential(messages::norm{}, fixed{}));
  decltype(wrong)::saved state;
  wrong.backward_weight(c, state);
}
