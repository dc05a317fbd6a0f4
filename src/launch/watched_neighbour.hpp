// watched_neighbour: each of the ranks that are processes watches another one. A process that
// is stalled ends the run within seconds, with a message that names it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <mpt/console/say.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/flight/flight_recorder.hpp>
#include <parallel/comm/flight/heartbeat.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/device/host/stream.hpp>

#include <launch/launch.hpp>
#include <launch/processes.hpp>
#include <process/exit_code.hpp>

namespace apps {

class watched_neighbour {
 public:
  /// `end_all` ends the processes of all ranks with a code and need not return. Without it, only
  /// this process ends, and its launcher ends the others.
  explicit watched_neighbour(parallel::any_communicator& comm,
                             std::function<void(int)> end_all = {})
      : comm_(comm), end_all_(std::move(end_all)) {}

  /// Begins to watch. Does nothing if the run records no calls in files. Collective.
  void begin(launch_options const& options,
             std::shared_ptr<parallel::flight_recorder> const& recorder) {
    int const rank = comm_.rank();
    int const ranks = comm_.size();
    parallel::host::stream exchanges;
    auto const machines = parallel::gather_texts(comm_, exchanges, parallel::machine_name());
    if (ranks == 1 || recorder->ring().path().empty()) return;
    auto const predecessor = static_cast<std::size_t>((rank + ranks - 1) % ranks);
    heartbeat_.emplace(
        recorder, parallel::flight_file(options.flight_folder, (rank + 1) % ranks),
        [this](std::string const& sentence) { end(sentence); },
        parallel::heartbeat_options{.between_machines = machines[predecessor] !=
                                                        machines[static_cast<std::size_t>(rank)]});
  }

  /// Stops watching. Does not return if all ranks are being ended already.
  void stop() {
    while (ending_) std::this_thread::sleep_for(std::chrono::seconds(1));
    heartbeat_.reset();
  }

 private:
  void end(std::string const& sentence) {
    ending_ = true;
    mpt::console::say("error: rank {}: {}\n", comm_.rank(), sentence);
    // in a separate thread: a call of MPI that waits for the late rank, such as one that splits a
    // communicator, holds MPI's lock for ever
    std::thread([this, sentence] { comm_.abort(sentence); }).detach();
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the others print their last calls
    constexpr auto code = static_cast<int>(exit_code::timed_out);
    if (end_all_) {
      std::thread([this] { end_all_(code); }).detach();
      std::this_thread::sleep_for(std::chrono::seconds(2));
    }
    std::_Exit(code);  // the launcher then ends all processes
  }

  parallel::any_communicator& comm_;
  std::function<void(int)> end_all_;
  std::atomic<bool> ending_ = false;
  std::optional<parallel::heartbeat> heartbeat_;
};

}  // namespace apps
