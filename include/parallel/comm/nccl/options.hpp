// Options of a rank's NCCL communicators.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <parallel/comm/flight/flight_recorder.hpp>
#include <parallel/core/patience.hpp>

namespace parallel::nccl {

/// How long ranks wait for each other, and what watches and records their calls.
struct communicator_options {
  /// Longest time for which one operation may wait for another rank, or a communicator may take to
  /// be made.
  shared_deadline deadline = std::chrono::minutes(10);
  /// The period of the watchdog; at most patience::max_pause.
  std::chrono::milliseconds look_every = std::chrono::milliseconds(50);
  /// The recorder of this rank's calls; null: calls are not recorded.
  std::shared_ptr<flight_recorder> recorder = {};
  /// Exchanged memory whose pieces have at least this size is allocated by NCCL (nccl::memory), and
  /// is registered as symmetric windows.
  std::size_t least_window_bytes = std::size_t{4} << 20;
  /// The time within which communicators must end once there is a reason.
  std::chrono::milliseconds grace = std::chrono::seconds(60);
  /// Called when they have not ended, with a sentence that names the reason and the call that does
  /// not return: it should end the process. Empty: prints the sentence on standard error and ends
  /// the process with status 1. If it returns, the wait continues.
  std::function<void(std::string const&)> when_stuck = {};
};

}  // namespace parallel::nccl
