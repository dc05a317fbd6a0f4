// fetch: gets a model or a dataset of the Hugging Face Hub by its name into the hub's cache, and
// prints the folder in which its files are.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <mpt/console/format.hpp>
#include <mpt/console/progress.hpp>
#include <mpt/console/say.hpp>
#include <mpt/hub/fetch_repository.hpp>
#include <mpt/yaml/node.hpp>

#include <cli/app.hpp>
#include <cli/results_file.hpp>
#include <inputs/http.hpp>

namespace {

struct arguments {
  std::string name;
  std::string revision = "main";
  std::vector<std::string> include, exclude;
  bool dataset = false;
  apps::results_file json;
};

[[nodiscard]] std::string size(std::uint64_t bytes) {
  return mpt::console::bytes(static_cast<double>(bytes));
}

void fetch(arguments const& args) {
  mpt::hub::wanted_repository wanted;
  wanted.repository.name = args.name;
  if (args.dataset) wanted.repository.kind = mpt::hub::repository_kind::dataset;
  wanted.revision = args.revision;
  wanted.checks_contents = true;
  wanted.choice = [&](mpt::hub::listing const& files) {
    return matching(files, args.include, args.exclude);
  };
  mpt::console::progress bar("fetch");
  mpt::hub::fetch_events events;
  events.note = [&](std::string const& sentence) { bar.note("note: " + sentence); };
  events.progress = [&](std::uint64_t bytes, std::uint64_t total, std::string_view path) {
    bar.update(total == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(total),
               fmt::format("{} of {}  {}", size(bytes), size(total), mpt::printable(path)));
  };
  auto const found =
      mpt::hub::fetch_repository(wanted, mpt::hub::read_settings(), apps::network, events);
  bar.finish();
  args.json.write({{"name", args.name},
                   {"kind", args.dataset ? "dataset" : "model"},
                   {"commit", found.commit},
                   {"folder", found.folder.native()},
                   {"files", found.files.size()},
                   {"downloaded_bytes", found.downloaded_bytes}});
  mpt::console::say("{}{}@{}: {} files, {} downloaded now\n", args.dataset ? "dataset " : "",
                    args.name, found.commit.substr(0, 12), found.files.size(),
                    size(found.downloaded_bytes));
  if (!args.json.is_printed_alone()) fmt::print("{}\n", found.folder.native());
}

}  // namespace

int main(int argc, char** argv) {
  arguments args;
  CLI::App app{
      "Get a model or a dataset of the Hugging Face Hub into the hub's cache, and print the folder "
      "of its files"};
  app.footer(
      "Examples:\n"
      "  fetch mosaicml/mpt-7b --include '*.json' --include '*.safetensors'\n"
      "  fetch --dataset allenai/c4 --include 'en/c4-validation.*'\n"
      "The cache is huggingface_hub's: ~/.cache/huggingface/hub, or HF_HUB_CACHE, or HF_HOME/hub. "
      "A "
      "token is taken from HF_TOKEN or from the file that `hf auth login` writes. HF_HUB_OFFLINE=1 "
      "takes what the cache has.");
  app.add_option("name", args.name, "ORG/NAME of the repository")->required();
  app.add_flag("--dataset", args.dataset, "a dataset; else a model");
  app.add_option("--revision", args.revision, "branch, tag or commit")->capture_default_str();
  app.add_option("--include", args.include,
                 "only files that this pattern matches ('*' also matches '/'); may be repeated");
  app.add_option("--exclude", args.exclude, "no files that this pattern matches; may be repeated");
  args.json.add_to(app, "what was got");
  return apps::run(app, argc, argv, [&] {
    args.json.check();
    fetch(args);
  });
}
