// Writes the flight recorders of a run's ranks, which tell what every rank did when the run failed,
// into the run's folder.
#pragma once

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <mpt/console/say.hpp>
#include <parallel/checkpoint/claims/folder_claim.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/file.hpp>

#include <launch/launch.hpp>

namespace apps {

/// If there are several ranks, records the calls of `rank` in FOLDER/flight-rank<N>.ring, a file
/// that outlives the process. Prints a note if that is not possible.
inline void record_calls_in_file(launch_options const& options, int rank, int ranks,
                                 parallel::flight_recorder& recorder) {
  if (rank == 0 && !options.flight_folder.empty())
    parallel::remove_flight_files(options.flight_folder, ranks > 1 ? ranks : 0);
  if (ranks > 1 && !options.flight_folder.empty()) try {
      recorder.move_to(
          parallel::flight_ring(parallel::flight_file(options.flight_folder, rank), rank, ranks));
    } catch (parallel::error const& problem) {
      mpt::console::say(
          "note: the calls of rank {} are not recorded for the report after a crash: {}\n", rank,
          problem.what());
    }
}

/// Whether the run still owns its folder after this failure, so that last calls are written into
/// it.
[[nodiscard]] inline bool keeps_folder(std::exception const& problem) {
  return dynamic_cast<parallel::checkpoint::claim_lost const*>(&problem) == nullptr &&
         dynamic_cast<parallel::checkpoint::folder_gone const*>(&problem) == nullptr;
}

/// Whether the exception that is being handled says that a rank waited too long for another.
[[nodiscard]] inline bool waited_too_long() {
  try {
    throw;
  } catch (parallel::timed_out const&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Writes the last calls of `rank` to FOLDER/flight-rank<N>.txt and returns that name. Without a
/// folder that can be written, returns "" and writes the calls to standard error, but only if they
/// concern the failure: if `stuck`, or if a rank waited too long. Writes nothing for a rank that
/// made no call.
inline std::string write_last_calls(launch_options const& options, int rank,
                                    parallel::flight_recorder const& recorder,
                                    bool stuck = false) noexcept {
  try {
    std::string const text = recorder.text();
    if (text.empty()) return "";
    if (!options.flight_folder.empty()) try {
        auto const file = options.flight_folder / fmt::format("flight-rank{}.txt", rank);
        std::filesystem::create_directories(options.flight_folder);
        parallel::replace_text_file(file, text);
        return file.string();
      } catch (std::exception const& problem) {
        mpt::console::say("cannot write the last calls of rank {}: {}\n", rank, problem.what());
      }
    if (stuck || waited_too_long()) mpt::console::say("the last calls of rank {}:\n{}", rank, text);
  } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): the run's own error matters
  }
  return "";
}

}  // namespace apps
