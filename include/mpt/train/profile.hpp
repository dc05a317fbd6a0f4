// Where a step's time goes: a table by operation, and a trace for chrome://tracing or Perfetto.
//
// Times are those of host streams' tasks; arithmetic comes from running the same microbatch on the
// meta device, whose operations have the same names; bytes are those of collectives' payloads.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <mpt/vocabulary.hpp>
#include <parallel/core/clock.hpp>
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
[[nodiscard]] inline std::string_view task_name(std::string_view label) {
  return label.substr(0, label.find('<'));
}

[[nodiscard]] inline double milliseconds(host::timed_task const& task) {
  return std::chrono::duration<double, std::milli>(task.end - task.begin).count();
}

}  // namespace detail

/// A table of calls, milliseconds and share of each operation per step, the longest first, with its
/// rate where it is known. `operations`: floating-point operations of all `steps` by name.
[[nodiscard]] inline std::string profile_table(
    std::vector<stream_profile> const& streams, std::int64_t steps,
    std::map<std::string_view, std::uint64_t> const& operations) {
  struct row {
    std::string stream, name;
    double calls = 0, ms = 0, bytes = 0;
  };
  std::vector<row> rows;
  std::map<std::string_view, double> flops;
  for (auto const& [name, count] : operations)
    flops[detail::task_name(name)] += static_cast<double>(count);
  for (auto const& stream : streams)
    for (auto const& task : stream.tasks) {
      auto const name = detail::task_name(task.label.name);
      auto entry = std::ranges::find_if(
          rows, [&](row const& r) { return r.stream == stream.name && r.name == name; });
      if (entry == rows.end())
        entry = rows.insert(entry, {.stream = stream.name, .name = std::string(name)});
      entry->calls += 1;
      entry->ms += detail::milliseconds(task);
      entry->bytes += static_cast<double>(task.label.bytes);
    }
  std::map<std::string, double> total;
  for (auto const& r : rows) total[r.stream] += r.ms;
  std::ranges::stable_sort(rows, [](row const& a, row const& b) {
    return a.stream != b.stream ? a.stream < b.stream : a.ms > b.ms;
  });
  auto const n = static_cast<double>(std::max<std::int64_t>(1, steps));
  std::string out = fmt::format("{:<10}{:<30}{:>9}{:>12}{:>8}  {}\n", "stream", "operation",
                                "calls", "ms a step", "share", "rate");
  for (auto const& r : rows) {
    std::string rate;
    if (auto const f = flops.find(r.name); f != flops.end() && f->second > 0 && r.ms > 0)
      rate = fmt::format("{:.2f} GF/s", f->second / r.ms / 1e6);
    else if (r.bytes > 0 && r.ms > 0)
      rate = fmt::format("{:.2f} GB/s", r.bytes / r.ms / 1e6);
    out += fmt::format("{:<10}{:<30}{:>9.4g}{:>12.3f}{:>7.1f}%  {}\n", r.stream, r.name,
                       r.calls / n, r.ms / n, 100 * r.ms / std::max(total[r.stream], 1e-9), rate);
  }
  return out;
}

/// All tasks of the streams in the trace event format: one thread per stream, times in microseconds
/// since the first task.
[[nodiscard]] inline nlohmann::json chrome_trace(std::vector<stream_profile> const& streams) {
  auto first = parallel::steady_time::max();
  for (auto const& stream : streams)
    for (auto const& task : stream.tasks) first = std::min(first, task.begin);
  auto const microseconds = [](auto duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
  };
  auto events = nlohmann::json::array();
  for (std::size_t i = 0; i < streams.size(); ++i) {
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 0},
                      {"tid", i},
                      {"args", {{"name", streams[i].name}}}});
    for (auto const& task : streams[i].tasks) {
      nlohmann::json event{{"ph", "X"},
                           {"name", detail::task_name(task.label.name)},
                           {"pid", 0},
                           {"tid", i},
                           {"ts", microseconds(task.begin - first)},
                           {"dur", microseconds(task.end - task.begin)}};
      if (task.label.bytes > 0) event["args"] = {{"bytes", task.label.bytes}};
      events.push_back(std::move(event));
    }
  }
  return {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
}

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
