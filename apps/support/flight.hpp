// What every rank was doing when a run failed: its flight recorder, written where the run's files
// are.
#pragma once

#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <mpt/console/say.hpp>
#include <parallel/checkpoint/folder_claim.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/file.hpp>

#include "support/launch.hpp"

namespace apps {

/// Keeps the calls of `rank`, if there are several, in FOLDER/flight-rank<N>.ring, which outlives
/// the process; says why where it cannot.
inline void keep_calls(launch_options const& options, int rank, int ranks,
                       parallel::flight_recorder& recorder) {
  if (rank == 0 && !options.flight_folder.empty())
    parallel::remove_flights_from(options.flight_folder, ranks > 1 ? ranks : 0);
  if (ranks > 1 && !options.flight_folder.empty()) try {
      recorder.move_to(
          parallel::flight_ring(parallel::flight_file(options.flight_folder, rank), rank, ranks));
    } catch (parallel::error const& problem) {
      mpt::console::say("note: what rank {} does is not kept for a crash: {}\n", rank,
                        problem.what());
    }
}

/// Whether what failed leaves the run its folder, into which last calls are written.
[[nodiscard]] inline bool keeps_folder(std::exception const& problem) {
  return dynamic_cast<parallel::checkpoint::claim_lost const*>(&problem) == nullptr &&
         dynamic_cast<parallel::checkpoint::folder_gone const*>(&problem) == nullptr;
}

/// Whether what failed, the current exception, is that a rank waited too long for another.
[[nodiscard]] inline bool waited_too_long() {
  try {
    throw;
  } catch (parallel::timed_out const&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Writes the last calls of `rank` to FOLDER/flight-rank<N>.txt and returns that name. Where there
/// is no folder, or no way to write to it, it returns "" and writes them to standard error if they
/// tell of the failure: if `stuck`, or a rank waited too long. A rank that made no call has nothing
/// to tell.
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
