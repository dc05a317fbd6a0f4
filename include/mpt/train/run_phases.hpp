// run_phases: how long ranks wait for each other, by what the run does (deadlines.*).
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include <mpt/config/train.hpp>
#include <parallel/core/shared_deadline.hpp>

namespace mpt {

class run_phases {
 public:
  /// `of`: what the run's communicator was made with; none: its deadline stays as it is.
  run_phases(run_deadlines const& times, std::optional<parallel::shared_deadline> of)
      : times_(times), of_(std::move(of)) {}

  /// The run comes to `phase`, as in enter(&run_deadlines::save).
  void enter(double run_deadlines::*phase) const {
    if (of_) of_->set(std::chrono::duration<double>(times_.*phase));
  }

 private:
  run_deadlines times_;
  std::optional<parallel::shared_deadline> of_;
};

}  // namespace mpt
