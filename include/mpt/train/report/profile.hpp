// Where a step's time goes: a table by operation, and a trace for chrome://tracing or Perfetto.
//
// Times are those of host streams' tasks; arithmetic comes from running the same microbatch on the
// meta device, whose operations have the same names; bytes are those of collectives' payloads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/train.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/device/host/trace.hpp>

namespace mpt {

/// The tasks that one stream ran.
struct stream_profile {
  std::string name;
  std::vector<host::timed_task> tasks;
};

namespace detail {

/// A task's name without template arguments.
[[nodiscard]] std::string_view task_name(std::string_view label);

}  // namespace detail

/// Floating-point operations by the name of the function that computes them.
using operation_counts = std::map<std::string_view, std::uint64_t>;

/// A table of calls, milliseconds and share of each operation per step, the longest first, with its
/// rate where it is known. `operations`: the operations of all `steps`.
[[nodiscard]] std::string profile_table(std::vector<stream_profile> const& streams,
                                        std::int64_t steps, operation_counts const& operations);

/// All tasks of the streams in the trace event format: one thread per stream, times in microseconds
/// since the first task.
[[nodiscard]] nlohmann::json chrome_trace(std::vector<stream_profile> const& streams);

/// The tasks of a few batches.
struct run_profile {
  std::vector<stream_profile> streams;
  std::int64_t batches = 0;
};

/// Profiles a few batches of a run. The caller gives its traces to two streams and calls
/// advance() after every batch and finish() after the last.
class run_profiler {
 public:
  static constexpr std::int64_t warm_up_batches = 1;  ///< not timed, since caches fill in them

  explicit run_profiler(std::int64_t timed_batches = 3) : timed_batches_(timed_batches) {}

  [[nodiscard]] host::trace& compute() { return compute_; }
  [[nodiscard]] host::trace& exchanges() { return exchanges_; }

  /// Called when `trained_batches` batches are trained in this program. `operations`: returns the
  /// operations of one batch. Returns the table when it is complete and has then written the trace
  /// into `file`, unless that is empty; else "".
  [[nodiscard]] std::string advance(std::int64_t trained_batches, std::filesystem::path const& file,
                                    std::function<operation_counts()> const& operations);

  /// Called after the last batch. Returns the table of the batches that were timed, or the reason
  /// why there are none; "" if the table was complete before.
  [[nodiscard]] std::string finish(std::int64_t trained_batches, std::filesystem::path const& file,
                                   std::function<operation_counts()> const& operations);

  /// Starts to time one batch more, after the table is complete.
  void start_again() { compute_.start(); }
  /// The tasks of the compute stream since start_again().
  [[nodiscard]] std::vector<host::timed_task> stop_again() {
    compute_.stop();
    return compute_.take();
  }

  /// What was timed; empty before the table is complete.
  [[nodiscard]] run_profile const& timed() const { return timed_; }

 private:
  [[nodiscard]] std::string write(std::int64_t batches, std::filesystem::path const& file,
                                  std::function<operation_counts()> const& operations);

  std::int64_t timed_batches_;
  host::trace compute_;
  host::trace exchanges_;
  run_profile timed_;
};

/// The profiler of a rank of a run; null: the run or the rank has none. A run that measures its
/// machine is timed for its whole length; one that knows its machines (`cluster`) is timed too.
[[nodiscard]] std::unique_ptr<run_profiler> profiler_of(run_config const& run, int rank);

/// The options of a stream with the trace `record` (null: none), if such a stream keeps a trace.
template <class Options>
[[nodiscard]] Options with_trace(Options options, host::trace* record) {
  if constexpr (requires { options.record = record; }) options.record = record;
  return options;
}

}  // namespace mpt
