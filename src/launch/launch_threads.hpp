// launch_threads: runs the ranks of a program as threads of this process.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/checked.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>

#include <devices/cores.hpp>
#include <launch/flight.hpp>
#include <launch/launch.hpp>
#include <process/exit_code.hpp>
#include <process/process.hpp>

namespace apps {

/// Runs `program` once per rank, as `launch` (launch.hpp) describes. When the program fails on
/// several ranks, writes the last calls of each.
inline void launch_threads(
    launch_options const& options,
    std::function<void(parallel::any_communicator&, placement const&)> const& program) {
  auto const cores = available_cores();
  int const ranks = options.ranks.value_or(1);
  std::vector<std::shared_ptr<parallel::flight_recorder>> recorders;
  for (int rank = 0; rank < ranks; ++rank)
    recorders.push_back(std::make_shared<parallel::flight_recorder>());
  auto const remove_ring_files = [&] {
    for (auto const& recorder : recorders) recorder->ring().remove_file();
  };
  auto const write_last_calls_of_all = [&](bool stuck = false) {
    std::string first_file;
    for (int rank = ranks > 1 ? 0 : 1; rank < ranks; ++rank) {
      auto const& recorder = *recorders[static_cast<std::size_t>(rank)];
      auto const file = write_last_calls(options, rank, recorder, stuck);
      if (first_file.empty()) first_file = file;
    }
    if (!first_file.empty())
      mpt::console::say(
          "the last calls of every rank are in {} and the files of the other ranks next to it\n",
          first_file);
  };
  try {
    parallel::threads::run(
        ranks,
        [&](parallel::threads::communicator& comm) {
          int const rank = comm.rank();
          auto const& recorder = recorders[static_cast<std::size_t>(rank)];
          parallel::any_communicator any(
              parallel::recorded(parallel::checked(std::move(comm)), recorder));
          program(any,
                  {cores_of_rank(cores, rank, ranks), rank,
                   [&, rank] { record_calls_in_file(options, rank, ranks, *recorder); }, recorder});
        },
        {.deadline = options.deadline, .when_stuck = [&](std::string const& sentence) {
           print_error(sentence.c_str());
           write_last_calls_of_all(true);
           // destructors would free what the stuck ranks use
           std::_Exit(static_cast<int>(code_of_current_exception()));
         }});
    remove_ring_files();
  } catch (refusal const& problem) {
    remove_ring_files();
    print_error(problem.what());
    throw;
  } catch (std::exception const& problem) {
    if (keeps_folder(problem)) write_last_calls_of_all();
    throw;
  } catch (...) {
    write_last_calls_of_all();
    throw;
  }
}

}  // namespace apps
