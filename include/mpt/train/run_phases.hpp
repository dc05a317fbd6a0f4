// run_phases: sets how long ranks wait for each other, by phase of the run (deadlines.*).
#pragma once

#include <optional>
#include <utility>

#include <mpt/config/train.hpp>
#include <parallel/core/patience.hpp>

namespace mpt {

class run_phases {
 public:
  /// `deadline`: the deadline of the run's communicator; if it is empty, enter() changes nothing.
  run_phases(run_deadlines const& deadlines, std::optional<parallel::shared_deadline> deadline)
      : deadlines_(deadlines), deadline_(std::move(deadline)) {}

  /// Sets the deadline of `phase`, as in enter(&run_deadlines::save).
  void enter(double run_deadlines::*phase) const;

 private:
  run_deadlines deadlines_;
  std::optional<parallel::shared_deadline> deadline_;
};

}  // namespace mpt
