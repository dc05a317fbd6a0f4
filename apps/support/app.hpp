// What every program's main does: parse, run, and turn an exception into one line and a status.
#pragma once

#include <exception>
#include <functional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

namespace apps {

/// Parses the command line and runs `body`; 0 when all went well, 1 after an error, which is
/// printed as "error: …" on standard error. `--help` and bad usage are CLI11's.
inline int run(CLI::App& app, int argc, char** argv, std::function<void()> const& body) {
  try {
    app.parse(argc, argv);
    body();
    return 0;
  } catch (CLI::ParseError const& problem) {
    return app.exit(problem);
  } catch (std::exception const& problem) {
    fmt::print(stderr, "error: {}\n", problem.what());
    return 1;
  }
}

}  // namespace apps
