// What every program's main does: parse, run, and turn an exception into one line and a status.
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
#include <mpt/config/node.hpp>

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

/// Checks that an option is one of these types of numbers (float32, fp32, bf16, ...), or another
/// program's name for one, which becomes it.
[[nodiscard]] CLI::Validator number_type(std::vector<std::string> names);

/// Parses the command line and runs `body`; 0 when all went well, else the code of the cause
/// (exit_code.hpp) after an error, which is printed as "error: …" on standard error, once where all
/// processes fail alike; bad usage is one. Refusals are printed by `launch`.
int run(CLI::App& app, int argc, char** argv, std::function<void()> const& body,
        bool is_primary = true);

}  // namespace apps
