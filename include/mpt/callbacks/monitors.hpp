// optimizer_monitor: logs the norms of every tensor's gradient, moment, weights and update, and
// their norms over all tensors, every few batches under Composer's names. Gradients are those of
// the mean loss after clipping; updates are the changes of the weights after rounding.
//
// nan_monitor: ends a run whose loss or gradient is not finite, because further batches cannot
// repair it. Every run has this callback.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <mpt/callbacks/callback.hpp>

namespace mpt {

struct nan_monitor {
  static constexpr std::string_view name = "nan_monitor";

  void batch_end(run_control&, batch_result const& r) const;
};

class optimizer_monitor {
 public:
  static constexpr std::string_view name = "optimizer_monitor";

  explicit optimizer_monitor(std::int64_t interval) : interval_(interval) {}

  void batch_begin(run_control& run, std::int64_t batch) const;

  void batch_end(run_control& run, batch_result const& r) const;

 private:
  static constexpr std::array<std::string_view, 4> kinds = {"grad", "moment", "param", "update"};

  std::int64_t interval_;
};

}  // namespace mpt
