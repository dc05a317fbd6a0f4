#include <mpt/callbacks/monitors.hpp>

#include <cmath>
#include <cstddef>

#include <parallel/core/failures.hpp>

namespace mpt {

void optimizer_monitor::batch_begin(run_control& run, std::int64_t batch) const {
  if (batch % interval_ == 0) run.measure_tensors();
}

void optimizer_monitor::batch_end(run_control& run, batch_result const& r) const {
  if (r.tensors == nullptr || r.tensors->empty()) return;
  std::array<double, 4> totals{};
  for (auto const& tensor : *r.tensors) {
    std::array const squares{tensor.gradient * r.gradient_scale * r.gradient_scale, tensor.moment,
                             tensor.weights, tensor.update};
    for (std::size_t i = 0; i < squares.size(); ++i) {
      totals[i] += squares[i];
      run.log(parallel::concat("l2_norm/", kinds[i], "/model.", tensor.name),
              std::sqrt(squares[i]));
    }
  }
  for (std::size_t i = 0; i < totals.size(); ++i)
    run.log(parallel::concat("l2_norm/", kinds[i], "/global"), std::sqrt(totals[i]));
}

void nan_monitor::batch_end(run_control&, batch_result const& r) const {
  if (std::isfinite(r.loss) && std::isfinite(r.gradient_norm)) return;
  throw parallel::diverged(
      parallel::concat("batch ", r.batch, ": the ", std::isfinite(r.loss) ? "gradient" : "loss",
                       " is not finite; lower the learning rate, resume from an "
                       "earlier checkpoint, or set on_not_finite to skip or "
                       "roll_back"));
}

}  // namespace mpt
