// the model has no visit_units(f) that calls f with each unit's name, layer, parts and uses
#include "../model.hpp"

struct without_units : messages::model {
  void visit_units() = delete;
};

auto run(without_units& model, parallel::decoupled_adamw const& optimizer) {
  parallel::train::optimizer_groups<parallel::decoupled_adamw> const groups(optimizer);
  return parallel::train::plan_units(model, groups, {}, {}).total();
}
