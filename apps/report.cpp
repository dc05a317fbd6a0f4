// report: makes one HTML page of a run, or of a comparison of several, or shows it while they
// train.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <mpt/console/say.hpp>
#include <mpt/report/page.hpp>
#include <mpt/report/run_record.hpp>

#include <cli/app.hpp>
#include <cli/page_server.hpp>
#include <cli/report_file.hpp>

namespace {

namespace fs = std::filesystem;

/// Says what the page lacks where the library that draws charts was not there to be built in.
void note_missing_charts() {
  if (!mpt::report::has_charts())
    mpt::console::say(
        "note: the page has tables alone, since this program was built without the library that "
        "draws charts: apt-get install libjs-dygraphs, and build again\n");
}

/// The runs' folders, each once; says which were named more often.
std::vector<fs::path> without_repetitions(std::vector<fs::path> const& folders) {
  std::vector<fs::path> out;
  std::set<fs::path> seen;
  for (auto const& folder : folders) {
    if (seen.insert((folder / "").lexically_normal()).second)
      out.push_back(folder);
    else
      mpt::console::say("note: {} is named twice and shown once\n", folder.native());
  }
  return out;
}

std::vector<mpt::report::run_record> read_runs(std::vector<fs::path> const& folders) {
  std::vector<mpt::report::run_record> runs;
  for (auto const& folder : folders) runs.push_back(mpt::report::read_run(folder));
  distinguish_names(runs);
  return runs;
}

/// Writes the page to the file `out`, or to standard output where that is "-".
void write_page(std::vector<fs::path> const& folders, fs::path const& out,
                std::string const& title) {
  auto const runs = read_runs(folders);
  std::vector<fs::path> inputs;
  for (auto const& run : runs) {
    inputs.push_back(run.metrics_file);
    for (char const* const name : {"summary.json", "run.jsonl", "plan.svg"})
      inputs.push_back(run.save_folder / name);
    for (auto const& problem : run.problems) mpt::console::say("warning: {}\n", problem);
  }
  apps::check_report_file("--out", out, inputs);
  auto const page = page_of(runs, title);
  note_missing_charts();
  if (out == "-") {
    bool const is_written =
        std::fwrite(page.data(), 1, page.size(), stdout) == page.size() && std::fflush(stdout) == 0;
    if (!is_written) parallel::files::failure("standard output", "cannot write");
    return;
  }
  apps::write_report_file(out, page);
  mpt::console::say("{}: {} KB\n", out.native(), page.size() / 1000);
}

/// The sizes and times of the files that runs write, and whether their programs live, by which a
/// change is noticed.
std::string state_of_files(std::vector<mpt::report::run_record> const& runs) {
  std::string out;
  for (auto const& run : runs) {
    out += fmt::format("{} ", static_cast<int>(mpt::report::writer_of(run.save_folder)));
    for (auto const& file :
         {run.metrics_file, run.save_folder / "run.jsonl", run.save_folder / "summary.json"}) {
      std::error_code missing;
      auto const time = fs::last_write_time(file, missing).time_since_epoch().count();
      out += fmt::format("{} {} ", fs::file_size(file, missing), time);
    }
  }
  return out;
}

/// Shows the page to browsers of this machine, made again when the runs have written more.
void serve_page(std::vector<fs::path> const& folders, std::uint16_t port,
                std::string const& title) {
  constexpr int refresh_seconds = 15;
  auto runs = read_runs(folders);
  auto state = state_of_files(runs);
  auto page = page_of(runs, title);
  apps::page_server server(port);
  note_missing_charts();
  fmt::print("{}\n", server.address());
  std::fflush(stdout);
  server.answer(
      [&] {
        if (auto const current = state_of_files(runs); current != state) {
          runs = read_runs(folders);
          page = page_of(runs, title);
          state = current;
        }
        return page;
      },
      refresh_seconds);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> folders;
  fs::path out;
  std::string title;
  std::optional<std::uint16_t> port;
  CLI::App app{
      "Make one HTML page of a run, or of a comparison of several: curves, speed, memory, where "
      "the "
      "time went, configuration, generated texts, notes. It needs no network"};
  app.add_option("runs", folders,
                 "each a run's save_folder, the folder that holds it, or its metrics_file")
      ->required();
  auto* const file = app.add_option("--out", out, "the page; '-' for standard output");
  app.add_option("--serve", port,
                 "instead of a file: show the page to browsers of this machine, at this port (0: a "
                 "free one), while the runs train; the address, with its token, is printed")
      ->excludes(file)
      ->check(apps::whole_number(0, 65'535));
  app.add_option("--title", title, "of the page; else the runs' names");
  app.footer(
      "Examples:\n  report runs/first --out first.html\n  report runs/a runs/b --out "
      "compared.html\n"
      "  report runs/first --serve 8080");
  return apps::run(app, argc, argv, [&] {
    parallel::require(port || !out.empty(), "--out FILE or --serve PORT is required");
    folders = without_repetitions(folders);
    if (port)
      serve_page(folders, *port, title);
    else
      write_page(folders, out, title);
  });
}
