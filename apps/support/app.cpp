// See app.hpp: what of a command line is the same in every program, compiled once.
#include "support/app.hpp"

#include <chrono>
#include <exception>
#include <new>
#include <string>
#include <system_error>
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

/// What the exception says; where the standard library threw it for want of something, of what.
std::string sentence_of(std::exception const& problem) {
  if (dynamic_cast<std::bad_alloc const*>(&problem) != nullptr)
    return "no memory is left for this process: take less (a smaller batch, fewer threads), or "
           "raise "
           "the limit on its address space (ulimit -v)";
  auto const* const refused = dynamic_cast<std::system_error const*>(&problem);
  if (refused != nullptr && refused->code() == std::errc::resource_unavailable_try_again)
    return "no thread can be started: use fewer, or raise the limit on processes and threads "
           "(ulimit "
           "-u)";
  return problem.what();
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
  } catch (refusal const&) {
    return 1;
  } catch (reported const& failure) {
    return static_cast<int>(failure.code);
  } catch (stopped_early const&) {
    return static_cast<int>(exit_code::go_on);
  } catch (std::exception const& problem) {
    auto const code = static_cast<int>(code_of_current_exception());
    print_error_of_all(sentence_of(problem), is_primary);
    return code;
  }
}

}  // namespace apps
