// run_record: what a run has written about itself, as read from its files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/report/curve.hpp>

namespace mpt::report {

/// A text that the model generated after a batch.
struct text_sample {
  std::int64_t batch = 0;
  std::string name;  ///< as "generations/0"
  std::string text;
};

/// A note that the run printed after a batch.
struct run_note {
  std::int64_t batch = 0;
  std::string text;
};

/// How the seconds of one program of a run, or of all, were spent.
struct time_split {
  double start = 0;     ///< from the program's beginning until training
  double training = 0;  ///< batches that count
  double data = 0;      ///< waiting for data, within training
  double evaluation = 0;
  double saving = 0;     ///< training was stalled
  double lost = 0;       ///< training of batches that were trained again after a restart
  double remaining = 0;  ///< what the run did not account for

  /// All of them: wall-clock seconds of the programs.
  [[nodiscard]] double total() const {
    return start + training + data + evaluation + saving + lost + remaining;
  }
  /// The share of the time in which batches that count were trained, waiting for data included.
  [[nodiscard]] double goodput() const { return total() > 0 ? (training + data) / total() : 0; }
  time_split& operator+=(time_split const& addend);
};

/// One program of a run: a run that was killed and resumed has several.
struct run_program {
  std::int64_t first_batch = 0;  ///< 0: it trained none
  std::int64_t last_batch = 0;
  double began = 0;                ///< seconds since 1970; 0: unknown
  bool is_ended = false;           ///< it said so itself
  bool is_stopped = false;         ///< by a signal
  std::string failure;             ///< the error that ended it
  std::int64_t total_batches = 0;  ///< of the run; 0: unknown
  time_split spent;
};

/// The name of our own curve in addition to the logged ones: what each batch took.
inline constexpr char const* seconds_of_batch = "seconds of batch";

/// What the claim of a run's save_folder says of the program that writes there.
enum class writer_state {
  unknown,
  alive,
  silent,  ///< it has died without a word, or its machine has
  ended
};

struct run_record {
  std::string name;
  std::filesystem::path folder;                      ///< as it was named
  std::filesystem::path save_folder;                 ///< "" if there is none
  std::filesystem::path metrics_file;                ///< likewise
  std::map<std::string, curve, std::less<>> curves;  ///< by the name of the logged number
  double seconds_left = -1;                          ///< estimated by the last batch; -1: unknown
  std::vector<curve> memory_by_rank;                 ///< peaks of device memory so far, in bytes
  std::vector<text_sample> samples;
  std::vector<run_note> notes;
  std::vector<run_note> lines;  ///< that the programs printed of evaluations
  std::vector<run_program> programs;
  nlohmann::ordered_json start = nlohmann::ordered_json::object();  ///< the journal's last one
  nlohmann::ordered_json summary = nlohmann::ordered_json::object();
  writer_state writer = writer_state::unknown;
  std::string plan_picture;           ///< an SVG, or ""
  double last_written = 0;            ///< seconds since 1970; 0: unknown
  std::vector<std::string> problems;  ///< with the files, one sentence each

  /// The curve of that name; an empty one where the run has none.
  [[nodiscard]] curve const& find(std::string_view metric) const;
  [[nodiscard]] time_split spent() const;
  /// Whether the last program ended by itself and was not asked to stop.
  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] std::optional<double> summary_number(std::string_view key) const;
};

/// Reads the run in `path`: a run's save_folder, the folder that holds it, or its metrics file.
/// Damaged records are left out and named in `problems`. Throws if there is no run.
[[nodiscard]] run_record read_run(std::filesystem::path const& path);

/// What the newest claim of a save_folder says of its holder, which writes a beat every second.
[[nodiscard]] writer_state writer_of(std::filesystem::path const& save_folder);

/// Equal names of runs get their folders appended.
void distinguish_names(std::vector<run_record>& runs);

}  // namespace mpt::report
