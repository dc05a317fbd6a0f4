// a layer has no visit_parameters(f) that calls f with each parameter
#include <parallel/layer/sequential.hpp>
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct hidden : parallel::linear<float> {
  void visit_parameters() = delete;
};
struct of_hidden : messages::model {
  using block = parallel::sequential<hidden>;

  block other;

  block const& at(std::size_t) const { return other; }
  void visit_units(auto&& visit) {
    using uses = std::vector<parallel::parameter_base<float>*>;
    visit(std::string("tokens"), tokens, std::vector<parallel::train::part>{-1}, uses{});
    visit(std::string("body"), other, std::vector<parallel::train::part>{0}, uses{});
  }
};

void run(of_hidden& model, parallel::host::device& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
