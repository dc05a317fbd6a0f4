// What every program's main does: parse, run, and turn an exception into one line and a status.
#pragma once

#include <charconv>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <mpt/config/node.hpp>

#include "support/exit_code.hpp"
#include "support/launch.hpp"
#include "support/process.hpp"

namespace apps {

/// Checks that an option is a whole number of at least `least`, and at most `most`.
[[nodiscard]] inline CLI::Validator whole_number(
    std::uint64_t least, std::uint64_t most = std::numeric_limits<std::int64_t>::max()) {
  return {[least, most](std::string& text) -> std::string {
            std::uint64_t value = 0;
            auto const [end, problem] =
                std::from_chars(text.data(), text.data() + text.size(), value);
            bool const whole = problem == std::errc() && end == text.data() + text.size();
            if (whole && value >= least && value <= most) return {};
            return fmt::format("expected a whole number from {} to {}, found '{}'", least, most,
                               mpt::printable(text));
          },
          "", "WHOLE"};
}

/// Checks that an option is the seed of random choices.
[[nodiscard]] inline CLI::Validator any_seed() {
  return whole_number(0, std::numeric_limits<std::uint64_t>::max());
}

/// Says what ends this process. All processes of a machine mostly end for the same reason, and
/// launchers end all of them at the first that fails: the others wait for the one that speaks
/// (`is_primary`), and speak where its end has not ended them, since the reason is theirs alone.
inline void print_error_of_all(std::string const& text, bool is_primary) {
  if (!is_primary) std::this_thread::sleep_for(std::chrono::seconds(10));
  print_error(text.c_str());
}

/// Parses the command line and runs `body`; 0 when all went well, else the code of the cause
/// (exit_code.hpp) after an error, which is printed as "error: …" on standard error, once where all
/// processes fail alike; bad usage is one. Refusals are printed by `launch`.
inline int run(CLI::App& app, int argc, char** argv, std::function<void()> const& body,
               bool is_primary = true) {
  settle_process();
  try {
    app.parse(argc, argv);
    body();
    require_printed();
    return 0;
  } catch (CLI::ParseError const& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);  // --help
    print_error_of_all(fmt::format("{}; --help lists the options", problem.what()), is_primary);
    return 1;
  } catch (refusal const&) {
    return 1;
  } catch (reported const& failure) {
    return static_cast<int>(failure.code);
  } catch (stopped_early const&) {
    return static_cast<int>(exit_code::go_on);
  } catch (std::exception const& problem) {
    auto const code = static_cast<int>(code_of_current_exception());
    print_error_of_all(problem.what(), is_primary);
    return code;
  }
}

}  // namespace apps
