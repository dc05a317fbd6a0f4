// flight: prints what the flight recorders of a run's ranks tell together.
#include <cstddef>
#include <filesystem>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <mpt/console/plain_text.hpp>
#include <nlohmann/json.hpp>
#include <parallel/comm/flight/flight_report.hpp>

#include <cli/app.hpp>
#include <cli/results_file.hpp>

namespace {

/// The findings from all recorders, as JSON.
nlohmann::ordered_json to_json(std::vector<parallel::flight_log> const& logs) {
  auto const found = parallel::findings(logs);
  auto ranks = nlohmann::ordered_json::array();
  for (auto const& log : logs)
    ranks.push_back(
        {{"rank", log.rank},
         {"process", log.process},
         {"machine", log.machine},
         {"recorded_calls", log.calls.size()},
         {"last_call", log.calls.empty() ? "" : describe(log.calls.back().call_signature)}});
  auto waits = nlohmann::ordered_json::array();
  for (auto const& wait : found.waits)
    waits.push_back({{"call", describe(wait.call.call_signature)},
                     {"waiting_ranks", wait.waiting_ranks},
                     {"absent_ranks", wait.absent_ranks}});
  return {{"ranks", std::move(ranks)},
          {"waits", std::move(waits)},
          {"late_ranks", found.late},
          {"divergence", found.divergence}};
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path folder;
  std::size_t calls = 3;
  CLI::App app{
      "Tell who was in which call when a run was stalled or died, who was late, and where ranks "
      "first did not do the same"};
  apps::add_examples(app, {"flight ckpt --calls 10"});
  app.add_option("folder", folder, "the run's save_folder, with flight-rank<N>.ring of every rank")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--calls", calls, "how many of each rank's last calls are listed")
      ->capture_default_str()
      ->check(apps::whole_number(0, 1'000'000));
  apps::results_file json;
  json.add_to(app, "what was found");
  return apps::run(app, argc, argv, [&] {
    json.check();
    auto const logs = parallel::read_flights(folder);
    parallel::require(!logs.empty(), folder.native(),
                      ": there is no flight-rank<N>.ring here; a run on several ranks keeps "
                      "them in its save_folder until it ends well");
    json.write(to_json(logs));
    if (!json.is_printed_alone())
      fmt::print("{}", mpt::console::plain_text(parallel::report(logs, calls)));
  });
}
