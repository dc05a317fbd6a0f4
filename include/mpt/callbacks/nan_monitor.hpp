// nan_monitor: ends a run whose loss or gradient is not finite, because further batches cannot
// repair it. Every run has this callback.
#pragma once

#include <string_view>

#include <mpt/callbacks/callback.hpp>

namespace mpt {

struct nan_monitor {
  static constexpr std::string_view name = "nan_monitor";

  void batch_end(run_control&, batch_result const& r) const;
};

}  // namespace mpt
