// optimizer_monitor: logs the norms of every tensor's gradient, moment, weights and update, and
// their norms over all tensors, every few batches under Composer's names. Gradients are those of
// the mean loss after clipping; updates are the changes of the weights after rounding.
#pragma once

#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include <mpt/callbacks/callback.hpp>

namespace mpt {

class optimizer_monitor {
 public:
  static constexpr std::string_view name = "optimizer_monitor";

  explicit optimizer_monitor(std::int64_t interval) : interval_(interval) {}

  void batch_begin(run_control& run, std::int64_t batch) const {
    if (batch % interval_ == 0) run.measure_tensors();
  }

  void batch_end(run_control& run, batch_result const& r) const {
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

 private:
  static constexpr std::array<std::string_view, 4> kinds = {"grad", "moment", "param", "update"};

  std::int64_t interval_;
};

}  // namespace mpt
