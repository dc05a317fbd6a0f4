// The common part of every program's main: parse the command line, run, and turn an exception into
// one line and an exit code.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <mpt/yaml/node.hpp>

namespace apps {

/// Checks that an option is a whole number from `min` to `max`.
[[nodiscard]] inline CLI::Validator whole_number(
    std::uint64_t min, std::uint64_t max = std::numeric_limits<std::int64_t>::max()) {
  return {[min, max](std::string& text) -> std::string {
            std::uint64_t value = 0;
            auto const [end, problem] =
                std::from_chars(text.data(), text.data() + text.size(), value);
            bool const is_whole = problem == std::errc() && end == text.data() + text.size();
            if (is_whole && value >= min && value <= max) return {};
            return fmt::format("expected a whole number from {} to {}, found '{}'", min, max,
                               mpt::printable(text));
          },
          "", "WHOLE"};
}

/// Checks that an option is a seed of random numbers: any whole number of 64 bits.
[[nodiscard]] inline CLI::Validator any_seed() {
  return whole_number(0, std::numeric_limits<std::uint64_t>::max());
}

/// Checks that an option names one of the number types `names` (float32, fp32, bf16, ...). Another
/// common name of such a type is replaced by the name in `names`.
[[nodiscard]] CLI::Validator number_type(std::vector<std::string> names);

/// Ends the program's --help with these command lines.
inline void add_examples(CLI::App& app, std::vector<std::string> const& lines) {
  app.footer(fmt::format("Examples:\n  {}", fmt::join(lines, "\n  ")));
}

/// Parses the command line and runs `body`. Returns 0 on success, else the exit code of the error
/// (exit_code.hpp). The error is printed as "error: …" on standard error; a process that is not
/// `is_primary` waits before it prints, so that an error of all processes appears once. A wrong
/// command line is an error, too. A `refusal` is not printed here: the launcher prints it.
int run(CLI::App& app, int argc, char** argv, bool is_primary, std::function<void()> const& body);
inline int run(CLI::App& app, int argc, char** argv, std::function<void()> const& body) {
  return run(app, argc, argv, true, body);
}

}  // namespace apps
