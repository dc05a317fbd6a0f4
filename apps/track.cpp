// track: sends the metrics that a run could not hand to its trackers.
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/console/say.hpp>
#include <mpt/trackers/open_trackers.hpp>

#include <cli/app.hpp>
#include <cli/results_file.hpp>
#include <inputs/tracking_client.hpp>

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> files;
  double seconds = 600;
  std::string python = "python3";
  CLI::App app{"Send metrics that a run could not send: the journals that its last lines name"};
  apps::add_examples(app, {"track ckpt/trackers/mlflow-4f7k2m9q.jsonl"});
  app.add_option("journals", files, "files in the folder trackers of a run's save_folder")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--seconds", seconds, "how long to try, for each file")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  app.add_option("--python", python, "the interpreter that has W&B's client")
      ->capture_default_str();
  apps::results_file json;
  json.add_to(app, "the counts");
  return apps::run(app, argc, argv, [&] {
    json.check(files);
    auto const time =
        std::chrono::milliseconds(static_cast<std::chrono::milliseconds::rep>(1000 * seconds));
    std::size_t sent = 0;
    auto const say = [](std::string const& text) { mpt::console::say("{}\n", text); };
    for (auto const& file : files) {
      try {
        sent += mpt::trackers::send_journal(file, python, apps::tracking_client(), time, say);
      } catch (parallel::error const& problem) {  // the other files are tried too
        say(problem.what());
      }
    }
    json.write({{"journals", files.size()}, {"sent", sent}});
    parallel::require(sent == files.size(), files.size() - sent, " of ", files.size(),
                      " journals could not be sent; try again when their servers answer");
    if (!json.is_printed_alone())
      fmt::print("sent {} {}\n", sent, sent == 1 ? "journal" : "journals");
  });
}
