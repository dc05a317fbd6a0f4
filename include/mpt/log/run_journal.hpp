// run_journal: the file in save_folder that tells what the programs of a run did: when they
// started, with which configuration, what they noted, how they ended.
//
// One JSON object a line, each with `event` and `time` (seconds since 1970, UTC). Every program
// that continues the run appends its own lines:
//   start   program, version, run_name, ranks, layout, model, metrics_file, configuration, ...
//   train   batches that were trained before; training begins here
//   memory  batch, device_bytes: by rank, the peak of device memory so far
//   note    batch, text: what the program printed as a note
//   line    batch, text: what the program printed of an evaluation
//   end     batches and seconds of this program; without it the program was killed or failed
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include <nlohmann/json.hpp>

#include <mpt/log/appended_file.hpp>

namespace mpt {

/// The journal's name in save_folder.
inline constexpr std::string_view journal_name = "run.jsonl";

class run_journal {
 public:
  /// A journal that ignores all events.
  run_journal() = default;

  /// Opens the journal in `save_folder` for appending; "" for none. Throws if it cannot be opened.
  explicit run_journal(std::filesystem::path const& save_folder);

  /// Appends an event that happens at the time of the call.
  void add(std::string_view event, nlohmann::ordered_json const& fields = {});

  /// The events that could not be written, as on a full disk.
  [[nodiscard]] std::uint64_t lost() const { return file_.lost(); }

 private:
  appended_file file_;
};

}  // namespace mpt
