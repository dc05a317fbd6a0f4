#include <inputs/hub_dataset.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <mpt/console/format.hpp>
#include <mpt/console/progress.hpp>
#include <mpt/finetune/split_files.hpp>
#include <mpt/yaml/node.hpp>
#include <parallel/core/file.hpp>

#include <inputs/http.hpp>
#include <launch/launch.hpp>

namespace apps {

namespace fs = std::filesystem;

namespace {

/// The fraction at which the bar of a set stays that more files may be got of: the line of a
/// terminal is then free for another bar, and a log has a line in 15 seconds and not one a file.
constexpr double open_bar = 0.999;

/// The snapshot of a repository. `bar` shows how far a download is, up to the fraction
/// `last_fraction`, and says first that there is one unless `is_announced`, which it sets.
mpt::hub::snapshot fetch_with(mpt::hub::wanted_repository const& wanted,
                              mpt::console::progress& bar, bool& is_announced,
                              double last_fraction) {
  mpt::hub::fetch_events events;
  events.note = [&](std::string const& sentence) {
    if (is_primary_here()) bar.note("note: " + sentence);
  };
  events.progress = [&](std::uint64_t bytes, std::uint64_t total, std::string_view path) {
    if (!std::exchange(is_announced, true))
      bar.note(fmt::format("downloading {} from the hub", wanted.repository.name));
    auto const size = [](std::uint64_t count) {
      return mpt::console::bytes(static_cast<double>(count));
    };
    double const fraction =
        total == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(total);
    bar.update(std::min(fraction, last_fraction),
               fmt::format("{} of {}  {}", size(bytes), size(total), mpt::printable(path)));
  };
  // The first process of a machine downloads and tells; the others then wait for its locks.
  auto const settings = mpt::hub::read_settings();
  if (!is_primary_here() && !settings.offline && !cached_repository(wanted, settings))
    std::this_thread::sleep_for(std::chrono::seconds(2));
  auto checked = wanted;
  // A start reads no hundred gigabytes to compare them; `fetch` does.
  if (!wanted.checks_contents) checked.largest_checked_file = std::uint64_t{1} << 30;
  checked.checks_contents = wanted.checks_contents || is_primary_here();  // once on each machine
  return mpt::hub::fetch_repository(checked, settings, network, events);
}

/// Throws if no file of the set can be read as rows; says why.
void require_data_files(mpt::hub::listing const& files, std::string const& name) {
  auto const has_rows = [](mpt::hub::listed_file const& file) {
    auto const base = fs::path(file.path).filename().native();
    return mpt::finetune::is_data_file(file.path) && !mpt::finetune::describes_set(base);
  };
  if (std::ranges::any_of(files, has_rows)) return;
  for (auto const& file : files)
    parallel::require(
        !file.path.ends_with(".py"), name, ": the script ", file.path,
        " makes its rows, and no code of a data set is run; run it elsewhere, write the rows as "
        "JSON lines, and give these files");
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(files.size(), 3); ++i)
    names += (i == 0 ? "" : ", ") + files[i].path;
  parallel::fail(
      name, ": has no file of rows (.jsonl, .json, .csv or .parquet; .gz and .zst too); it has ",
      names, files.size() > 3 ? fmt::format(" and {} more", files.size() - 3) : std::string());
}

}  // namespace

mpt::hub::snapshot fetch_aloud(mpt::hub::wanted_repository const& wanted) {
  mpt::console::progress bar("fetch " + wanted.repository.name);
  bool is_announced = false;
  return fetch_with(wanted, bar, is_announced, 1.0);
}

hub_dataset::hub_dataset(std::string name)
    : name_(std::move(name)), bar_(std::make_unique<mpt::console::progress>("fetch " + name_)) {
  mpt::hub::wanted_repository wanted{{mpt::hub::repository_kind::dataset, name_}};
  wanted.may_be_empty = true;
  wanted.choice = [&](mpt::hub::listing const& files) {
    files_ = files;
    return matching(files, {"README.md"});
  };
  auto const card = fetch_with(wanted, *bar_, is_announced_, open_bar);
  folder_ = card.folder;
  commit_ = card.commit;
}

mpt::hub::listing hub_dataset::files(mpt::finetune::file_names names) const {
  std::map<std::string_view, mpt::hub::listed_file const*> listed;
  for (auto const& file : files_) listed.emplace(file.path, &file);
  mpt::hub::listing out;
  in_outline(std::move(names), [&](mpt::finetune::file_names const& outlined) {
    for (auto const& file : mpt::finetune::find_files(outlined)) {
      auto const path = file.lexically_normal()
                            .lexically_relative(outline_->path().lexically_normal())
                            .generic_string();
      auto const found = listed.find(path);
      parallel::require(found != listed.end(), name_, ": has no file ", mpt::printable(path));
      out.push_back(*found->second);
    }
  });
  return out;
}

std::vector<std::string> hub_dataset::splits(std::string const& subset) const {
  std::vector<std::string> out;
  in_outline({.name = {}, .subset = subset}, [&](mpt::finetune::file_names const& outlined) {
    out = mpt::finetune::split_names(outlined);
  });
  return out;
}

void hub_dataset::get(mpt::hub::listing const& files) {
  outline_.reset();  // a process that is killed during a long download leaves none behind
  mpt::hub::wanted_repository wanted{{mpt::hub::repository_kind::dataset, name_}};
  wanted.revision = commit_;
  wanted.choice = [&](mpt::hub::listing const&) { return files; };
  static_cast<void>(fetch_with(wanted, *bar_, is_announced_, open_bar));
}

void hub_dataset::make_outline() const {
  require_data_files(files_, name_);
  outline_ = std::make_unique<parallel::temporary_folder>(fs::temp_directory_path(), "parallellm-");
  for (auto const& file : files_) {
    if (!mpt::finetune::is_data_file(file.path)) continue;
    fs::create_directories((outline_->path() / file.path).parent_path());
    parallel::output_file const empty(outline_->path() / file.path,
                                      parallel::output_file::existing::refuse);
  }
  auto const readme = folder_ / "README.md";
  if (fs::exists(readme)) fs::copy_file(readme, outline_->path() / "README.md");
}

void hub_dataset::in_outline(
    mpt::finetune::file_names names,
    std::function<void(mpt::finetune::file_names const& outlined)> const& find) const {
  if (outline_ == nullptr) make_outline();
  names.name = outline_->path().native();
  try {
    find(names);
  } catch (parallel::error const& problem) {
    std::string text = problem.what();
    for (auto begin = text.find(names.name); begin != std::string::npos;
         begin = text.find(names.name))
      text.replace(begin, names.name.size(), name_);
    parallel::fail(text);
  }
}

}  // namespace apps
