// a layer's type element is another than the model's
#include <parallel/ops/host.hpp>

#include "../model.hpp"

struct double_unit : messages::model {
  parallel::linear<double> wide;
  void visit_units(auto&& visit) {
    messages::model::visit_units(visit);
    visit(std::string("wide"), wide, std::vector<parallel::train::part>{0},
          std::vector<parallel::parameter_base<float>*>{});
  }
};

void run(double_unit& model, parallel::host::device& device, parallel::single& comm) {
  parallel::train::stepper const step(model, device, comm, parallel::decoupled_adamw{}, {});
}
