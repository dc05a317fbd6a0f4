// What every program's main does: parse, run, and turn an exception into one line and a status.
#pragma once

#include <exception>
#include <functional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "support/launch.hpp"

namespace apps {

/// Parses the command line and runs `body`; 0 when all went well, 1 after an error, which is
/// printed as "error: …" on standard error. `--help` and bad usage are CLI11's. Prints nothing when
/// others print the same (`is_primary`); refusals are printed by `launch`.
inline int run(CLI::App& app, int argc, char** argv, std::function<void()> const& body,
               bool is_primary = true) {
  try {
    app.parse(argc, argv);
    body();
    return 0;
  } catch (CLI::ParseError const& problem) {
    return is_primary ? app.exit(problem) : problem.get_exit_code();
  } catch (refusal const&) {
    return 1;
  } catch (std::exception const& problem) {
    if (is_primary) fmt::print(stderr, "error: {}\n", problem.what());
    return 1;
  }
}

}  // namespace apps
