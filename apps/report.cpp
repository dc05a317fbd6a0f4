// report: makes one HTML page of a run, or of a comparison of several.
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <mpt/console/say.hpp>
#include <mpt/report/html.hpp>
#include <mpt/report/page.hpp>
#include <mpt/report/run_record.hpp>

#include "support/app.hpp"
#include "support/report_file.hpp"

int main(int argc, char** argv) {
  std::vector<std::filesystem::path> folders;
  std::filesystem::path out;
  std::string title;
  CLI::App app{
      "Make one HTML page of a run, or of a comparison of several: curves, speed, memory, where "
      "the "
      "time went, configuration, generated texts, notes. It needs no network"};
  app.add_option("runs", folders,
                 "each a run's save_folder, the folder that holds it, or its metrics_file")
      ->required();
  app.add_option("--out", out, "the page; '-' for standard output")->required();
  app.add_option("--title", title, "of the page; else the runs' names");
  app.footer(
      "Example:\n  report runs/first --out first.html\n  report runs/a runs/b --out compared.html");
  return apps::run(app, argc, argv, [&] {
    std::vector<mpt::report::run_record> runs;
    std::vector<std::filesystem::path> inputs;
    for (auto const& folder : folders) {
      runs.push_back(mpt::report::read_run(folder));
      inputs.push_back(runs.back().metrics_file);
      inputs.push_back(runs.back().save_folder / "summary.json");
      for (auto const& problem : runs.back().problems)
        mpt::console::say("warning: {}\n", mpt::report::without_controls(problem));
    }
    apps::check_report_file("--out", out, inputs);
    distinguish_names(runs);
    if (!mpt::report::has_charts())
      mpt::console::say(
          "note: the page has tables alone, since this program was built without the "
          "library that draws charts: apt-get install libjs-dygraphs, and build again\n");
    auto const page = page_of(runs, title);
    if (out == "-") {
      std::fwrite(page.data(), 1, page.size(), stdout);
      return;
    }
    apps::write_report_file(out, page);
    mpt::console::say("{}: {} KB\n", mpt::report::without_controls(out.native()),
                      page.size() / 1000);
  });
}
