// What is chosen of a rank's NCCL communicators.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <parallel/comm/flight_recorder.hpp>
#include <parallel/core/shared_deadline.hpp>

namespace parallel::nccl {

struct communicator_options {
  /// Longest time for which one operation may wait for another rank, or a communicator to be made.
  shared_deadline deadline = std::chrono::minutes(10);
  /// How often the watchdog looks; at least every patience::pause.
  std::chrono::milliseconds look_every = std::chrono::milliseconds(50);
  /// This rank's, where its calls are noted; null: nowhere.
  std::shared_ptr<flight_recorder> recorder = {};
  /// What is exchanged in pieces of so many bytes lies in memory of NCCL's (nccl::memory), and is
  /// registered as symmetric windows.
  std::size_t least_window_bytes = std::size_t{4} << 20;
  /// How long communicators may take to end once there is a reason.
  std::chrono::milliseconds grace = std::chrono::seconds(60);
  /// Called when they have not, with a sentence that says the reason and what does not return: it
  /// should end the process. Empty: prints the sentence on standard error and ends the process with
  /// status 1. When it returns, the end is waited for further.
  std::function<void(std::string const&)> when_stuck = {};
};

}  // namespace parallel::nccl
