#include <mpt/trackers/open_trackers.hpp>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/trackers/companion_sender.hpp>
#include <mpt/trackers/journal_tracker.hpp>
#include <mpt/trackers/line_protocol.hpp>
#include <mpt/trackers/mlflow_sender.hpp>
#include <parallel/core/file.hpp>

namespace mpt::trackers {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view without_curl =
    "loggers.mlflow: this program was built without libcurl; install it and build again: "
    "apt-get install libcurl4-openssl-dev";

[[nodiscard]] std::string variable(char const* name, std::string fallback) {
  char const* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::string(value) : std::move(fallback);
}

/// A name that no other run has: eight letters and digits.
[[nodiscard]] std::string new_key() {
  constexpr std::string_view characters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device source;
  std::uniform_int_distribution<std::size_t> pick(0, characters.size() - 1);
  std::string key;
  while (key.size() < 8) key += characters[pick(source)];
  return key;
}

/// The journals of a kind of tracker in a folder.
class journal_folder {
 public:
  journal_folder(fs::path folder, std::string kind)
      : folder_(std::move(folder)), kind_(std::move(kind)) {}

  [[nodiscard]] std::string const& kind() const { return kind_; }

  /// The run that goes on where a checkpoint left off, or a new one. `wanted`: its key, or blank.
  [[nodiscard]] run_identity identify(std::string wanted, bool is_resumed) const {
    parallel::files::make_folders(folder_);
    auto const file = folder_ / (kind_ + ".run");
    std::string known;
    if (is_resumed && parallel::files::exists(file)) known = parallel::read_text_file(file, 300);
    while (known.ends_with('\n')) known.pop_back();
    bool const goes_on = parallel::is_plain_name(known);
    run_identity run{.key = std::move(wanted), .is_resumed = goes_on};
    if (run.key.empty()) run.key = goes_on ? known : new_key();
    parallel::replace_text_file(file, run.key + "\n");
    return run;
  }

  [[nodiscard]] fs::path journal_of(std::string const& key) const {
    return folder_ / (kind_ + "-" + key + ".jsonl");
  }

  /// Journals of earlier runs, of which no other program is the writer or the sender.
  [[nodiscard]] std::vector<fs::path> earlier_journals(std::string const& key) const {
    std::vector<fs::path> found;
    for (auto const& path : parallel::files::list(folder_))
      if (path.extension() == ".jsonl" && path.filename().string().starts_with(kind_ + "-") &&
          path != journal_of(key) && !journal::is_in_use(path))
        found.push_back(path);
    return found;
  }

 private:
  fs::path folder_;
  std::string kind_;
};

[[nodiscard]] fs::path sibling_file(fs::path journal, char const* ending) {
  return journal.replace_extension(ending);
}

/// What a user calls for a journal that is left over by a client of this interpreter.
[[nodiscard]] std::string send_command(std::string const& python) {
  return python == "python3" ? "track" : "track --python " + python;
}

/// A tracker that first tells of journals of earlier runs.
class run_tracker : public journal_tracker {
 public:
  /// `notes` are told first, `init` is the line that begins the run.
  run_tracker(journal_folder const& folder, run_identity const& run,
              std::unique_ptr<record_sender> sender, std::string const& init,
              std::vector<std::string> notes, std::string const& send_command = "track")
      : journal_tracker(folder.kind(), folder.journal_of(run.key), std::move(sender),
                        {.command = send_command}, init),
        first_notes_(std::move(notes)) {
    auto const& name = folder.kind();
    for (auto const& path : folder.earlier_journals(run.key))
      first_notes_.push_back(parallel::concat(name, ": metrics of an earlier run wait in ",
                                              path.string(), "; send them: ", send_command, " ",
                                              path.string()));
  }

  [[nodiscard]] std::vector<std::string> take_notes() override {
    auto notes = std::exchange(first_notes_, {});
    for (auto& text : journal_tracker::take_notes()) notes.push_back(std::move(text));
    return notes;
  }

 private:
  std::vector<std::string> first_notes_;
};

/// The text of that name in an object; "" if there is none.
[[nodiscard]] std::string text_member(nlohmann::json const& object, char const* name) {
  if (!object.is_object()) return {};
  auto const found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void check_python_tracker(python_tracker_config const& tracker) {
  auto const subject = "loggers." + tracker.module + ": ";
  auto const is_cancelled = [] { return false; };
  std::optional<std::string> line;
  std::string ending;
  try {
    companion_process process(companion_words(tracker.python), "/dev/null");
    static_cast<void>(process.write(init_line(tracker, {}, {}, "check") + "\n", is_cancelled));
    process.close_input();
    line = process.read_line(std::chrono::seconds(120), is_cancelled);
    if (!line) ending = process.end();
  } catch (parallel::error const& problem) {
    parallel::fail(subject, problem.what(), "; install Python and the client: apt-get install ",
                   "python3-pip && python3 -m pip install ", tracker.module, ", or name another ",
                   "interpreter by ", "loggers.", tracker.module, ".python");
  }
  parallel::require(line.has_value(), subject, tracker.python, " ", ending,
                    "; it must be Python 3.8 or newer with the package ", tracker.module);
  auto const answer = nlohmann::json::parse(*line, nullptr, false);
  auto const text = text_member(answer, "text");
  parallel::require(text_member(answer, "type") == "ready", subject,
                    text.empty() ? "its client does not answer" : shown_text(text));
}

/// Stands for a tracker that could not be opened, which holds no run up: says so once.
class unopened_tracker final : public tracker {
 public:
  explicit unopened_tracker(std::string note) : notes_{std::move(note)} {}

  void log(std::int64_t, nlohmann::ordered_json const&) override {}
  [[nodiscard]] std::vector<std::string> take_notes() override { return std::exchange(notes_, {}); }
  void finish() override {}
  void fail() override {}

 private:
  std::vector<std::string> notes_;
};

/// open(run, notes) for the run that `journals` identifies, or for a new one where another program
/// sends its journal, or what stands for a tracker whose journal cannot be written.
template <class Open>
[[nodiscard]] std::unique_ptr<tracker> open_or_note(journal_folder const& journals,
                                                    std::string const& wanted_key, bool is_resumed,
                                                    Open const& open) {
  auto const& name = journals.kind();
  try {
    auto const run = journals.identify(wanted_key, is_resumed);
    try {
      return open(run, std::vector<std::string>());
    } catch (journal_in_use const&) {
      auto const other = journals.identify(new_key(), false);
      return open(other, std::vector{parallel::concat(
                             name, ": another program sends the metrics of run ", run.key,
                             "; those of this run go to another one, ", other.key)});
    }
  } catch (parallel::error const& problem) {
    return std::make_unique<unopened_tracker>(
        parallel::concat(name, ": ", problem.what(), "; this run's metrics do not go there"));
  }
}

[[nodiscard]] std::unique_ptr<tracker> open_python_tracker(fs::path const& folder,
                                                           python_tracker_config const& tracker,
                                                           std::vector<written_key> const& settings,
                                                           bool is_resumed) {
  journal_folder const journals(folder, tracker.module);
  return open_or_note(
      journals, tracker.id, is_resumed,
      [&](run_identity const& run, std::vector<std::string> notes) {
        auto settings_of_client = tracker;
        if (!notes.empty()) settings_of_client.resume.clear();  // it is another run, a new one
        return std::make_unique<run_tracker>(
            journals, run,
            std::make_unique<companion_sender>(companion_words(tracker.python, true),
                                               folder / (tracker.module + ".log")),
            init_line(settings_of_client, run, settings), std::move(notes),
            send_command(tracker.python));
      });
}

[[nodiscard]] std::unique_ptr<tracker> open_mlflow(fs::path const& folder,
                                                   loggers_config const& loggers,
                                                   http_client const& client, bool is_resumed) {
  auto const& mlflow = *loggers.mlflow;
  journal_folder const journals(folder, "mlflow");
  auto const longest_wait = std::chrono::milliseconds(
      static_cast<std::chrono::milliseconds::rep>(1000 * mlflow.buffer_seconds));
  return open_or_note(
      journals, {}, is_resumed, [&](run_identity const& run, std::vector<std::string> notes) {
        auto const state = sibling_file(journals.journal_of(run.key), ".json");
        return std::make_unique<run_tracker>(
            journals, run, std::make_unique<mlflow_sender>(client, state, longest_wait),
            init_line(mlflow, run, loggers.settings, current_milliseconds()), std::move(notes));
      });
}

}  // namespace

fs::path tracker_folder(run_config const& run, checkpoint_config const& checkpoint) {
  auto const& saves = checkpoint.save_folder;
  return fs::path(saves.empty() ? run.name : saves) / "trackers";
}

loggers_config checked_loggers(loggers_config loggers, http_client const& client) {
  for (auto const& tracker : loggers.python_trackers) check_python_tracker(tracker);
  if (!loggers.mlflow) return loggers;
  auto& mlflow = *loggers.mlflow;
  parallel::require(client != nullptr, without_curl);
  if (mlflow.tracking_uri.empty()) mlflow.tracking_uri = variable("MLFLOW_TRACKING_URI", "");
  auto const& uri = mlflow.tracking_uri;
  parallel::require(
      is_server_address(uri), "loggers.mlflow: ",
      uri.empty() ? "neither tracking_uri nor $MLFLOW_TRACKING_URI names a server"
                  : "$MLFLOW_TRACKING_URI must be a server's address without a name or password",
      "; give one as http://HOST:PORT, or start one: mlflow server --backend-store-uri "
      "sqlite:///mlflow.db");
  if (mlflow.experiment_name.empty())
    mlflow.experiment_name = variable("MLFLOW_EXPERIMENT_NAME", "my-mlflow-experiment");
  return loggers;
}

tracker_opener make_tracker_opener(run_config const& run, checkpoint_config const& checkpoint,
                                   loggers_config const& loggers, http_client const& client) {
  if (!loggers.has_trackers()) return {};
  return [folder = tracker_folder(run, checkpoint), loggers, client](std::int64_t first_batch) {
    bool const is_resumed = first_batch > 1;
    std::vector<std::unique_ptr<tracker>> out;
    for (auto const& tracker : loggers.python_trackers)
      out.push_back(open_python_tracker(folder, tracker, loggers.settings, is_resumed));
    if (loggers.mlflow) out.push_back(open_mlflow(folder, loggers, client, is_resumed));
    return out;
  };
}

bool send_journal(fs::path const& file, std::string const& python, http_client const& client,
                  std::chrono::milliseconds time,
                  std::function<void(std::string const&)> const& say) {
  parallel::require(parallel::files::exists(file), file.string(), ": no such file");
  std::string first;
  std::getline(std::ifstream(file), first);
  auto const init = nlohmann::json::parse(first, nullptr, false);
  parallel::require(text_member(init, "type") == "init" && init.contains("protocol") &&
                        init.at("protocol") == protocol_version,
                    file.string(), ": is no journal of a tracker; runs keep theirs in the folder ",
                    "trackers of their save_folder");
  auto const kind = text_member(init, "client");
  std::unique_ptr<record_sender> sender;
  if (kind == "mlflow") {
    parallel::require(client != nullptr, without_curl);
    sender = std::make_unique<mlflow_sender>(client, sibling_file(file, ".json"),
                                             std::chrono::milliseconds(0));
  } else {
    parallel::require(kind == "wandb" || kind == "trackio", file.string(),
                      ": names a client that is not known here: ", shown_text(kind));
    sender =
        std::make_unique<companion_sender>(companion_words(python), sibling_file(file, ".log"));
  }
  journal_tracker tracker(kind, file, std::move(sender), {.command = send_command(python)});
  tracker.end_killed_run();  // whose program would hold the journal
  bool const is_sent = tracker.send_rest(time);
  for (auto const& text : tracker.take_notes()) say(text);
  return is_sent;
}

}  // namespace mpt::trackers
