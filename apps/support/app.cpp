// See app.hpp: what of a command line is the same in every program, compiled once.
#include "support/app.hpp"

#include <chrono>
#include <exception>
#include <thread>

#include "support/exit_code.hpp"
#include "support/launch.hpp"
#include "support/process.hpp"

namespace {

using apps::print_error;

/// Says what ends this process. All processes of a machine mostly end for the same reason, and
/// launchers end all of them at the first that fails: the others wait for the one that speaks
/// (`is_primary`), and speak where its end has not ended them, since the reason is theirs alone.
void print_error_of_all(std::string const& text, bool is_primary) {
  if (!is_primary) std::this_thread::sleep_for(std::chrono::seconds(10));
  print_error(text.c_str());
}

}  // namespace

namespace apps {

int run(CLI::App& app, int argc, char** argv, std::function<void()> const& body, bool is_primary) {
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
  } catch (refusal const& problem) {
    return static_cast<int>(problem.code());
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
