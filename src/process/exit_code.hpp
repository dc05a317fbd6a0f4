// exit_code: the codes with which programs end, by which a script or a cluster that started one can
// decide what to do next without reading its messages. docs/errors.md holds this table.
#pragma once

#include <array>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

#include <parallel/comm/aborted.hpp>
#include <parallel/core/failures.hpp>

namespace apps {

/// Code 2 is used by shells; codes above 128 are signals. 75 is EX_TEMPFAIL of sysexits.h.
enum class exit_code {
  complete = 0,
  refused = 1,
  another_rank = 3,
  timed_out = 4,
  out_of_memory = 5,
  storage = 6,
  diverged = 7,
  corrupted = 8,
  in_use = 9,
  go_on = 75
};

struct exit_code_meaning {
  exit_code code;
  std::string_view cause;
  std::string_view what_to_do;
};

inline constexpr std::array exit_codes{
    exit_code_meaning{exit_code::complete, "all was done", "nothing"},
    exit_code_meaning{exit_code::refused, "bad input, or any cause that is not below",
                      "read the message; the same again ends the same"},
    exit_code_meaning{exit_code::another_rank, "another rank failed, and says why",
                      "read that rank's message"},
    exit_code_meaning{
        exit_code::timed_out,
        "a rank was waited for to the deadline or could not be connected to, or its process was "
        "stalled",
        "look at the rank and machine that are named; start again: it goes on from "
        "the last checkpoint"},
    exit_code_meaning{exit_code::out_of_memory,
                      "no memory, of the host or of a device; or a limit on threads or open files",
                      "take a smaller microbatch, more recomputation or more ranks; or raise the "
                      "limit (ulimit -a lists them)"},
    exit_code_meaning{exit_code::storage, "a disk is full, read-only or failing",
                      "make room, or choose another folder; start again"},
    exit_code_meaning{exit_code::diverged,
                      "the loss or the gradient became NaN or infinite, or is a spike",
                      "lower the learning rate, or see on_not_finite and spike_check"},
    exit_code_meaning{exit_code::corrupted,
                      "a rank computed, or held, other bits than it should (corruption_check)",
                      "take the machine that is named out; start again: it goes on from the last "
                      "checkpoint"},
    exit_code_meaning{exit_code::in_use, "another program is writing into save_folder",
                      "wait for it, or choose another folder"},
    exit_code_meaning{exit_code::go_on, "stopped by a signal, and saved",
                      "start again with autoresume=true: it goes on where it was"}};

/// Thrown when a run was stopped without failure before its end; the program ends with
/// exit_code::go_on.
struct stopped_early final : std::exception {};

/// Thrown after an error has been printed; the program ends with `code`.
struct reported final : std::exception {
  explicit reported(exit_code value) : code(value) {}
  exit_code code;
};

/// The code for the exception that is being handled; called in a catch block.
[[nodiscard]] inline exit_code code_of_current_exception() {
  try {
    throw;
  } catch (stopped_early const&) {
    return exit_code::go_on;
  } catch (parallel::aborted const&) {
    return exit_code::another_rank;
  } catch (parallel::timed_out const&) {
    return exit_code::timed_out;
  } catch (parallel::out_of_memory const&) {
    return exit_code::out_of_memory;
  } catch (std::bad_alloc const&) {
    return exit_code::out_of_memory;
  } catch (parallel::limit_reached const&) {
    return exit_code::out_of_memory;
  } catch (parallel::storage_error const&) {
    return exit_code::storage;
  } catch (std::filesystem::filesystem_error const& problem) {
    return parallel::is_storage_error_code(problem.code().value()) ? exit_code::storage
                                                                   : exit_code::refused;
  } catch (std::system_error const& problem) {  // such as that of a thread that cannot start
    bool const is_limit = problem.code() == std::errc::resource_unavailable_try_again ||
                          parallel::is_limit_error_code(problem.code().value());
    return is_limit ? exit_code::out_of_memory : exit_code::refused;
  } catch (parallel::diverged const&) {
    return exit_code::diverged;
  } catch (parallel::corrupted const&) {
    return exit_code::corrupted;
  } catch (...) {
    return exit_code::refused;
  }
}

}  // namespace apps
