#include <mpt/report/run_record.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include <mpt/log/run_journal.hpp>
#include <mpt/report/detail/json_values.hpp>
#include <mpt/report/read_lines.hpp>
#include <parallel/checkpoint/claims/claim_file.hpp>
#include <parallel/checkpoint/claims/this_process.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace mpt::report {

namespace {

namespace fs = std::filesystem;
using detail::count_at;
using detail::number_at;
using detail::seconds_at;
using detail::text_at;

constexpr std::string_view summary_name = "summary.json";

bool is_file(fs::path const& path) {
  std::error_code unreadable;
  return fs::is_regular_file(path, unreadable);
}

/// Whether `file` begins with a record of metrics.
bool holds_metrics(fs::path const& file) {
  if (!is_file(file)) return false;
  std::ifstream in(file);
  std::string begin(14, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin == "{\"time/batch\":";
}

std::vector<fs::path> entries(fs::path const& folder) {
  std::error_code unreadable;
  std::vector<fs::path> out;
  for (auto const& entry : fs::directory_iterator(folder, unreadable)) out.push_back(entry.path());
  std::ranges::sort(out);
  return out;
}

std::vector<fs::path> metrics_files(fs::path const& folder) {
  auto files = entries(folder);
  std::erase_if(files, [](fs::path const& file) { return !holds_metrics(file); });
  return files;
}

/// The last second of the year 9999, which is as far as dates are written.
constexpr double latest_second = 253'402'300'799.0;

bool is_save_folder(fs::path const& folder) {
  return is_file(folder / journal_name) || is_file(folder / summary_name);
}

/// The save_folder in `folder` or the folder itself; "" if there is none.
fs::path find_save_folder(fs::path const& folder) {
  if (is_save_folder(folder)) return folder;
  auto candidates = entries(folder);
  std::erase_if(candidates, [](fs::path const& path) { return !is_save_folder(path); });
  if (candidates.empty()) return {};
  if (candidates.size() > 1)
    parallel::fail(folder.native(), ": holds several runs (",
                   candidates.front().filename().native(), ", ", candidates[1].filename().native(),
                   candidates.size() > 2 ? ", ..." : "", "); name those to be shown");
  return candidates.front();
}

/// The metrics file that a run says it has written or, after its folder was moved or copied, the
/// one that moved with it; "" if there is none. An older run does not say where its folder was.
fs::path written_metrics_file(run_record& run) {
  fs::path const written = text_at(run.start, "metrics_file");
  fs::path const recorded_folder = text_at(run.start, "save_folder");
  if (written.empty()) return {};
  if (recorded_folder.empty()) {
    for (auto const& folder : {run.folder, run.save_folder})
      if (auto const file = folder / written.filename(); holds_metrics(file)) return file;
    return is_file(written) ? written : fs::path();
  }
  std::error_code unknown;
  if (fs::equivalent(recorded_folder, run.save_folder, unknown))
    return is_file(written) ? written : fs::path();
  auto const relative =
      written.lexically_normal().lexically_relative(recorded_folder.lexically_normal());
  if (auto const file = (run.save_folder / relative).lexically_normal(); holds_metrics(file))
    return file;
  return {};
}

/// The metrics file of a run: the one that it says it has written or, where that is not there, as
/// after the folder was moved, one of the same name in its folders. A run that names none may have
/// the only one in the folder that was given.
fs::path find_metrics_file(run_record& run) {
  if (auto const file = written_metrics_file(run); !file.empty()) return file;
  fs::path const written = text_at(run.start, "metrics_file");
  std::vector<fs::path> files;
  std::set<fs::path> folders{run.folder, run.save_folder.empty() ? run.folder : run.save_folder};
  if (run.folder == run.save_folder && !run.folder.filename().empty())
    folders.insert(parallel::files::parent_folder(run.save_folder));
  for (auto const& folder : folders)
    for (auto const& file : metrics_files(folder)) {
      if (!written.empty() && file.filename() == written.filename()) return file;
      bool const may_be_its_own = folder == run.folder || folder == run.save_folder;
      if (written.empty() && may_be_its_own) files.push_back(file);
    }
  if (files.size() == 1) return files.front();
  if (files.size() > 1)
    run.problems.push_back(fmt::format("{}: {} metrics files are here; name one of them instead",
                                       run.folder.native(), files.size()));
  else if (!written.empty())
    run.problems.push_back(
        is_file(written)
            ? fmt::format("{}: is the metrics_file of the folder of which this one is a copy, so "
                          "its curves are not shown; copy it into {}, too",
                          written.native(), run.folder.native())
            : fmt::format("{}: the metrics_file of the run is not there, so there are no curves",
                          written.native()));
  else
    run.problems.push_back(fmt::format(
        "{}: the run wrote no metrics_file, so there are no curves: set metrics_file=FILE",
        run.folder.native()));
  return {};
}

nlohmann::ordered_json read_summary(run_record& run) {
  auto const file = run.save_folder / summary_name;
  auto empty = nlohmann::ordered_json::object();
  if (run.save_folder.empty() || !is_file(file)) return empty;
  auto summary = nlohmann::ordered_json::parse(std::ifstream(file), nullptr, false);
  if (summary.is_object()) return summary;
  run.problems.push_back(fmt::format("{}: is no JSON object and is left out", file.native()));
  return empty;
}

/// Adds the memory of the ranks after a batch, in place of what was noted of the same and of later
/// batches. Returns what is wrong with the record, or "".
std::string add_memory(run_record& run, nlohmann::ordered_json const& record) {
  auto const ranks = record.find("device_bytes");
  bool const is_sound =
      ranks != record.end() && ranks->is_array() &&
      std::ranges::all_of(*ranks, [](auto const& bytes) { return bytes.is_number(); });
  if (!is_sound) return "has no list of numbers (device_bytes)";
  auto const batch = count_at(record, "batch");
  if (run.memory_by_rank.size() < ranks->size()) run.memory_by_rank.resize(ranks->size());
  for (std::size_t rank = 0; rank < ranks->size(); ++rank) {
    auto& points = run.memory_by_rank[rank];
    // a program that resumes measures anew, and one that finds the run complete trains nothing
    double const before = points.empty() ? 0.0 : points.values.back();
    points.remove_from(batch);
    points.add(batch, std::max(before, (*ranks)[rank].get<double>()));
  }
  return "";
}

/// Reads the journal's events into `run`, with the programs that it tells of.
void read_journal(run_record& run) {
  auto const file = run.save_folder / journal_name;
  if (run.save_folder.empty() || !is_file(file)) return;
  auto const add = [&](nlohmann::ordered_json const& record) -> std::string {
    auto const event = text_at(record, "event");
    double const time = std::clamp(number_at(record, "time"), 0.0, latest_second);
    if (event == "start") {
      run.start = record;
      run.programs.emplace_back().began = time - seconds_at(record, "program_seconds");
      if (record.contains("notes") && record["notes"].is_array())
        for (auto const& note : record["notes"])
          if (note.is_string()) run.notes.push_back({0, note.get<std::string>()});
      return "";
    }
    if (event == "note" || event == "line") {
      auto& texts = event == "note" ? run.notes : run.lines;
      texts.push_back({count_at(record, "batch"), text_at(record, "text")});
      return "";
    }
    if (run.programs.empty()) return "comes before the start of a program";
    auto& program = run.programs.back();
    if (event == "memory") return add_memory(run, record);
    if (event == "train") {
      program.first_batch = count_at(record, "batches") + 1;
      program.total_batches = count_at(record, "total_batches");
      for (auto& points : run.memory_by_rank) points.remove_from(program.first_batch);
      program.spent.start = std::max(0.0, time - program.began);
      return "";
    }
    if (event == "failed") {
      program.failure = text_at(record, "text");
      return "";
    }
    if (event != "end") return "has an unknown event";
    auto& spent = program.spent;
    program.is_ended = true;
    program.is_stopped = record.contains("stopped") && record["stopped"] == true;
    program.last_batch = count_at(record, "batches");
    if (number_at(record, "batches_here") == 0) program.first_batch = 0;
    auto const training = seconds_at(record, "training_seconds");
    spent.data = training * std::clamp(number_at(record, "data_wait_share"), 0.0, 1.0);
    spent.training = training - spent.data;
    spent.evaluation = seconds_at(record, "evaluation_seconds");
    spent.saving = seconds_at(record, "saving_seconds");
    spent.remaining = std::max(0.0, seconds_at(record, "wall_clock_seconds") - spent.total());
    return "";
  };
  read_lines(file, add, run.problems);
}

void read_plan_picture(run_record& run) {
  constexpr std::uint64_t largest = 300'000;  // bytes, of a page of two megabytes
  auto const file = run.save_folder / "plan.svg";
  std::error_code unreadable;
  if (run.save_folder.empty() || !is_file(file)) return;
  if (fs::file_size(file, unreadable) > largest) {
    run.problems.push_back(fmt::format("{}: is too large for the page", file.native()));
    return;
  }
  try {
    run.plan_picture = parallel::read_text_file(file, largest);
  } catch (parallel::error const& problem) {
    run.problems.emplace_back(problem.what());
  }
}

double seconds_of_time_unit(nlohmann::ordered_json const& start, char const* key) {
  auto const keys = start.find("configuration");
  auto const unit = keys == start.end() ? "" : text_at(*keys, key);
  if (unit == "seconds") return 1;
  if (unit == "minutes") return 60;
  return unit == "days" ? 86'400 : 3600;
}

/// When the run wrote last, in seconds since 1970; 0 where that is not known.
double last_write_of(run_record const& run) {
  double last = 0;
  for (auto const& file : {run.metrics_file, run.save_folder / journal_name}) {
    std::error_code missing;
    auto const time = fs::last_write_time(file, missing);
    if (missing) continue;
    auto const since_1970 = std::chrono::file_clock::to_sys(time).time_since_epoch();
    last = std::max(last, std::chrono::duration<double>(since_1970).count());
  }
  return std::min(last, latest_second);
}

/// Joins what the journal tells of programs with what their metrics tell, by the first batch.
void join_programs(run_record& run, std::vector<run_program> const& measured) {
  if (run.programs.empty()) {
    run.programs = measured;
    if (run.programs.size() != 1) return;
    // the summary of an older run, which kept no journal
    auto const wall = run.summary_number("wall_clock_seconds");
    run.programs.front().is_ended = wall.has_value();
    auto& spent = run.programs.front().spent;
    if (wall) spent.remaining = std::max(0.0, *wall - spent.total());
    return;
  }
  auto const begins = [](run_program const& program) { return program.first_batch == 1; };
  if (std::ranges::count_if(measured, begins) > std::ranges::count_if(run.programs, begins))
    run.problems.push_back(
        fmt::format("{}: begins more often than the run's {} says: another run wrote to it, too, "
                    "and the page shows the batches that were written last; give each run its "
                    "own metrics_file",
                    run.metrics_file.native(), journal_name));
  // from the last on: a program that was killed before its first batch has no metrics, and the next
  // one begins with the same batch
  auto remaining = measured.size();
  for (auto next = run.programs.rbegin(); next != run.programs.rend(); ++next) {
    auto& program = *next;
    if (program.first_batch == 0 || remaining == 0) continue;
    if (measured[remaining - 1].first_batch != program.first_batch) continue;
    auto const& found = measured[--remaining];
    auto& spent = program.spent;
    spent.lost = found.spent.lost;
    if (program.is_ended) {  // what was lost later is part of what it reported as training
      double const useful = spent.training + spent.data;
      double const rest = useful > 0 ? std::max(0.0, 1 - spent.lost / useful) : 0;
      spent.training *= rest;
      spent.data *= rest;
      continue;
    }
    program.last_batch = found.last_batch;
    spent.training = found.spent.training;
    spent.data = found.spent.data;
    spent.evaluation = found.spent.evaluation;
    spent.saving = found.spent.saving;
  }
}

}  // namespace

time_split& time_split::operator+=(time_split const& addend) {
  start += addend.start;
  training += addend.training;
  data += addend.data;
  evaluation += addend.evaluation;
  saving += addend.saving;
  lost += addend.lost;
  remaining += addend.remaining;
  return *this;
}

curve const& run_record::find(std::string_view metric) const {
  static curve const none;
  auto const found = curves.find(metric);
  return found == curves.end() ? none : found->second;
}

time_split run_record::spent() const {
  time_split out;
  for (auto const& program : programs) out += program.spent;
  return out;
}

bool run_record::is_complete() const {
  return !programs.empty() && programs.back().is_ended && !programs.back().is_stopped;
}

std::optional<double> run_record::summary_number(std::string_view key) const {
  auto const found = summary.find(std::string(key));
  if (found == summary.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

run_record read_run(fs::path const& path) {
  std::error_code unreadable;
  run_record run;
  run.folder = path.lexically_normal();
  if (!run.folder.has_filename() && run.folder.has_relative_path())
    run.folder = run.folder.parent_path();
  if (fs::is_directory(path, unreadable)) {
    run.save_folder = find_save_folder(run.folder);
    read_journal(run);
    run.summary = read_summary(run);
    if (run.save_folder.empty())
      parallel::require(
          !metrics_files(run.folder).empty(), path.native(), ": there is no run here: expected ",
          journal_name, " or ", summary_name,
          " of a save_folder, or a metrics file; name the folder into which pretrain or "
          "finetune saved, or its metrics_file");
    run.metrics_file = find_metrics_file(run);
    for (auto const name : {journal_name, summary_name})
      if (auto const file = run.save_folder / name;
          !run.save_folder.empty() && fs::exists(file, unreadable) && !is_file(file))
        run.problems.push_back(file.native() + ": is no file and is left out");
  } else {
    parallel::require(is_file(path), path.native(), ": there is no such folder or file");
    run.metrics_file = path;
  }
  run.name = text_at(run.start, "run_name");
  if (run.name.empty()) run.name = text_at(run.summary, "run_name");
  if (run.name.empty()) run.name = run.folder.filename().string();
  std::vector<run_program> measured;
  if (!run.metrics_file.empty())
    measured =
        read_metrics(run.metrics_file,
                     seconds_of_time_unit(run.start, "callbacks.speed_monitor.time_unit"), run);
  join_programs(run, measured);
  read_plan_picture(run);
  run.writer = writer_of(run.save_folder);
  run.last_written = last_write_of(run);
  if (auto const& left = run.find("time/remaining_estimate"); !left.empty())
    run.seconds_left = left.values.back() *
                       seconds_of_time_unit(run.start, "callbacks.runtime_estimator.time_unit");
  return run;
}

writer_state writer_of(fs::path const& save_folder) try {
  namespace checkpoint = parallel::checkpoint;
  constexpr auto silence = std::chrono::seconds(60);  // a shared disk may show a beat late
  if (save_folder.empty()) return writer_state::unknown;
  auto const generations = checkpoint::claim_files::generations(save_folder);
  if (generations.empty()) return writer_state::unknown;
  auto const file = checkpoint::claim_files::file_of(save_folder, generations.back());
  auto const claim = checkpoint::claim_files::read(file);
  if (!claim) return writer_state::unknown;
  if (claim->ended) return writer_state::ended;
  bool const is_gone =
      claim->scope == checkpoint::scope_of_processes() && checkpoint::has_ended(claim->number);
  bool const is_recent = fs::file_time_type::clock::now() - fs::last_write_time(file) < silence;
  return is_recent && !is_gone ? writer_state::alive : writer_state::silent;
} catch (std::exception const&) {  // the folder cannot be read
  return writer_state::unknown;
}

void distinguish_names(std::vector<run_record>& runs) {
  std::map<std::string, int> uses;
  for (auto const& run : runs) ++uses[run.name];
  for (auto& run : runs)
    if (uses[run.name] > 1) run.name += fmt::format(" ({})", run.folder.string());
}

}  // namespace mpt::report
