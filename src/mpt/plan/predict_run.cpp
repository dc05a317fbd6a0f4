#include <mpt/plan/predict_run.hpp>

namespace mpt::detail {

void add_operations(prediction& out, train::step_plan const& plan,
                    predict::pass_times const& passes) {
  for (auto const& a : plan.actions) {
    if (a.kind != train::action_kind::pass) continue;
    auto const found = passes.find({a.pass, a.model_part});
    if (found == passes.end()) continue;
    for (auto const& [name, seconds] : found->second.by_operation)
      out.by_operation[std::string(name)] += seconds;
  }
}

}  // namespace mpt::detail
