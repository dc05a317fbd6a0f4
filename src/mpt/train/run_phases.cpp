#include <mpt/train/run_phases.hpp>

#include <chrono>

namespace mpt {

void run_phases::enter(double run_deadlines::*phase) const {
  if (deadline_) deadline_->set(std::chrono::duration<double>(deadlines_.*phase));
}

}  // namespace mpt
