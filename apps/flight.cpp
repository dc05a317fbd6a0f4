// flight: prints what the flight recorders of a run's ranks tell together.
#include <cstddef>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <parallel/comm/flight_report.hpp>

#include "support/app.hpp"

int main(int argc, char** argv) {
  std::filesystem::path folder;
  std::size_t calls = 3;
  CLI::App app{
      "Tell who was in which call when a run stood still or died, who was late, and where ranks "
      "first did not do the same"};
  apps::add_examples(app, {"flight ckpt --calls 10"});
  app.add_option("folder", folder, "the run's save_folder, with flight-rank<N>.ring of every rank")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--calls", calls, "of each rank that are listed, the last ones")
      ->capture_default_str()
      ->check(apps::whole_number(0, 1'000'000));
  return apps::run(app, argc, argv, [&] {
    auto const logs = parallel::read_flights(folder);
    parallel::require(!logs.empty(), folder.native(),
                      ": there is no flight-rank<N>.ring here; a run on several ranks keeps "
                      "them in its save_folder until it ends well");
    fmt::print("{}", parallel::report(logs, calls));
  });
}
