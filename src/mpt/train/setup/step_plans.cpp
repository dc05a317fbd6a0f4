#include <mpt/train/setup/step_plans.hpp>

#include <fmt/format.h>

#include <parallel/train/step/show_step.hpp>
#include <parallel/train/step/verify_step.hpp>

namespace mpt {

std::string describe_step(std::vector<train::step_plan> const& plans) {
  std::string out;
  for (auto const& plan : plans) out += train::to_string(plan) + '\n';
  for (auto const& plan : plans) {
    auto const residency = train::residency_of(plan);
    out += fmt::format(
        "pipeline rank {}: {} elements unsharded at most, {} of gradients of single "
        "microbatches, {} exchanges at once\n",
        plan.rank, residency.values, residency.gradients, train::exchanges_at_once(plan));
  }
  return out;
}

}  // namespace mpt
