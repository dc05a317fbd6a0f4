// Where a step's time goes: a table by operation, and a trace for chrome://tracing or Perfetto.
//
// Times are those of host streams' tasks; arithmetic comes from running the same microbatch on the
// meta device, whose operations have the same names; bytes are those of collectives' payloads.
#pragma once

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <mpt/vocabulary.hpp>
#include <parallel/core/file.hpp>
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

[[nodiscard]] double milliseconds(host::timed_task const& task);

}  // namespace detail

/// A table of calls, milliseconds and share of each operation per step, the longest first, with its
/// rate where it is known. `operations`: floating-point operations of all `steps` by name.
[[nodiscard]] std::string profile_table(
    std::vector<stream_profile> const& streams, std::int64_t steps,
    std::map<std::string_view, std::uint64_t> const& operations);

/// All tasks of the streams in the trace event format: one thread per stream, times in microseconds
/// since the first task.
[[nodiscard]] nlohmann::json chrome_trace(std::vector<stream_profile> const& streams);

/// Profiles a few batches of a run. The caller gives its traces to two streams and calls
/// advance() after every batch and finish() after the last.
class run_profiler {
 public:
  static constexpr std::int64_t first = 1;  // batches before the profile, in which caches fill
  static constexpr std::int64_t count = 3;

  [[nodiscard]] host::trace& compute() { return compute_; }
  [[nodiscard]] host::trace& exchanges() { return exchanges_; }

  /// Called when `trained_batches` batches are trained in this program. `operations`: returns the
  /// operations of one batch by function name. Returns the table when it is complete and has then
  /// written the trace into `file`; else "".
  template <class Operations>
  [[nodiscard]] std::string advance(std::int64_t trained_batches, std::filesystem::path const& file,
                                    Operations const& operations) {
    if (trained_batches == first) {
      compute_.start();
      exchanges_.start();
    }
    return trained_batches == first + count ? write(count, file, operations) : std::string();
  }

  /// Called after the last batch. Returns the table of the batches that were timed, or the reason
  /// why there are none; "" if the table was complete before.
  template <class Operations>
  [[nodiscard]] std::string finish(std::int64_t trained_batches, std::filesystem::path const& file,
                                   Operations const& operations) {
    if (trained_batches >= first + count) return {};
    if (trained_batches > first) return write(trained_batches - first, file, operations);
    return fmt::format(
        "no profile: the first batch, in which caches fill, is not timed, and {} trained here",
        trained_batches == 0 ? "none was" : "no other was");
  }

 private:
  template <class Operations>
  [[nodiscard]] std::string write(std::int64_t batches, std::filesystem::path const& file,
                                  Operations const& operations) {
    compute_.stop();
    exchanges_.stop();
    std::vector<stream_profile> const streams{{"compute", compute_.take()},
                                              {"exchanges", exchanges_.take()}};
    auto operation_counts = operations();
    for (auto& [name, number] : operation_counts) number *= static_cast<std::uint64_t>(batches);
    if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
    errno = 0;
    std::ofstream out(file);
    out << chrome_trace(streams).dump() << '\n' << std::flush;
    if (!out.good()) parallel::files::failure(file, "cannot write the profile");
    return fmt::format("{}trace of {}, for Perfetto or chrome://tracing: {}",
                       profile_table(streams, batches, operation_counts),
                       batches == 1 ? "this batch" : fmt::format("these {} batches", batches),
                       file.string());
  }

  host::trace compute_;
  host::trace exchanges_;
};

/// The options of a stream with the trace `record` (null: none), if such a stream keeps a trace.
template <class Options>
[[nodiscard]] Options with_trace(Options options, host::trace* record) {
  if constexpr (requires { options.record = record; }) options.record = record;
  return options;
}

}  // namespace mpt
