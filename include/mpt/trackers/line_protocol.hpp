// line_protocol: the lines by which a run tells its trackers what happens. Each is one JSON object;
// docs/trackers.md describes them. Journals hold the same lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <mpt/config/run/loggers.hpp>

namespace mpt::trackers {

/// The version that the first line states.
inline constexpr int protocol_version = 1;

/// A run at a tracker.
struct run_identity {
  std::string key;          ///< unique, made by us; W&B's run id
  bool is_resumed = false;  ///< the run goes on from a checkpoint

  friend bool operator==(run_identity const&, run_identity const&) = default;
};

/// The line that begins a run, or goes on with it: where it goes and how it was configured. `kind`
/// is "init", or "check" for a question whether the run could begin.
[[nodiscard]] std::string init_line(python_tracker_config const& tracker, run_identity const& run,
                                    std::vector<written_key> const& settings,
                                    std::string_view kind = "init");
[[nodiscard]] std::string init_line(mlflow_config const& tracker, run_identity const& run,
                                    std::vector<written_key> const& settings,
                                    std::int64_t milliseconds);

/// The line of a batch: numbers and texts by name, at `milliseconds` since 1970.
[[nodiscard]] std::string log_line(std::int64_t step, std::int64_t milliseconds,
                                   nlohmann::ordered_json const& record);

/// How a run ended.
enum class run_end {
  finished,
  failed,  ///< by an error
  killed   ///< its program is gone, and could not say more
};

/// The line that ends a run.
[[nodiscard]] std::string finish_line(run_end end, std::int64_t milliseconds);

/// A number as JSON; what JSON cannot write is the text "NaN", "Infinity" or "-Infinity", as in
/// protobuf's JSON.
[[nodiscard]] nlohmann::json to_json(double number);

/// Milliseconds since 1970.
[[nodiscard]] std::int64_t current_milliseconds();

}  // namespace mpt::trackers
