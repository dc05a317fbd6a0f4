#include <mpt/train/report/profile.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <ostream>
#include <utility>

#include <fmt/format.h>

#include <parallel/core/clock.hpp>
#include <parallel/core/file.hpp>

namespace mpt::detail {

std::string_view task_name(std::string_view label) { return label.substr(0, label.find('<')); }

}  // namespace mpt::detail

namespace mpt {
namespace {

double milliseconds(host::timed_task const& task) {
  return std::chrono::duration<double, std::milli>(task.end - task.begin).count();
}

}  // namespace

std::string profile_table(std::vector<stream_profile> const& streams, std::int64_t steps,
                          operation_counts const& operations) {
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
      entry->ms += milliseconds(task);
      entry->bytes += static_cast<double>(task.label.bytes);
    }
  std::map<std::string, double> milliseconds_by_stream;
  for (auto const& r : rows) milliseconds_by_stream[r.stream] += r.ms;
  std::ranges::stable_sort(rows, [](row const& a, row const& b) {
    return a.stream != b.stream ? a.stream < b.stream : a.ms > b.ms;
  });
  auto const step_count = static_cast<double>(std::max<std::int64_t>(1, steps));
  std::string out = fmt::format("{:<10}{:<30}{:>9}{:>12}{:>8}  {}\n", "stream", "operation",
                                "calls", "ms a step", "share", "rate");
  for (auto const& r : rows) {
    std::string rate;
    if (auto const f = flops.find(r.name); f != flops.end() && f->second > 0 && r.ms > 0)
      rate = fmt::format("{:.2f} GF/s", f->second / r.ms / 1e6);
    else if (r.bytes > 0 && r.ms > 0)
      rate = fmt::format("{:.2f} GB/s", r.bytes / r.ms / 1e6);
    out += fmt::format("{:<10}{:<30}{:>9.4g}{:>12.3f}{:>7.1f}%  {}\n", r.stream, r.name,
                       r.calls / step_count, r.ms / step_count,
                       100 * r.ms / std::max(milliseconds_by_stream[r.stream], 1e-9), rate);
  }
  return out;
}

nlohmann::json chrome_trace(std::vector<stream_profile> const& streams) {
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

std::unique_ptr<run_profiler> profiler_of(run_config const& run, int rank) {
  if (rank != 0) return nullptr;
  if (!run.measure.empty())
    return std::make_unique<run_profiler>(static_cast<std::int64_t>(run.max_duration.count) -
                                          run_profiler::warm_up_batches);
  return run.profile || !run.cluster.empty() ? std::make_unique<run_profiler>() : nullptr;
}

std::string run_profiler::advance(std::int64_t trained_batches, std::filesystem::path const& file,
                                  std::function<operation_counts()> const& operations) {
  if (trained_batches == warm_up_batches) {
    compute_.start();
    exchanges_.start();
  }
  return trained_batches == warm_up_batches + timed_batches_
             ? write(timed_batches_, file, operations)
             : std::string();
}

std::string run_profiler::finish(std::int64_t trained_batches, std::filesystem::path const& file,
                                 std::function<operation_counts()> const& operations) {
  if (trained_batches >= warm_up_batches + timed_batches_) return {};
  if (trained_batches > warm_up_batches)
    return write(trained_batches - warm_up_batches, file, operations);
  return fmt::format(
      "no profile: the first batch, in which caches fill, is not timed, and {} trained here",
      trained_batches == 0 ? "none was" : "no other was");
}

std::string run_profiler::write(std::int64_t batches, std::filesystem::path const& file,
                                std::function<operation_counts()> const& operations) {
  compute_.stop();
  exchanges_.stop();
  timed_ = {{{"compute", compute_.take()}, {"exchanges", exchanges_.take()}}, batches};
  auto const& streams = timed_.streams;
  auto counts = operations();
  for (auto& [name, number] : counts) number *= static_cast<std::uint64_t>(batches);
  if (file.empty()) return profile_table(streams, batches, counts);
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  errno = 0;
  std::ofstream out(file);
  out << chrome_trace(streams).dump() << '\n' << std::flush;
  if (!out.good()) parallel::files::failure(file, "cannot write the profile");
  return fmt::format("{}trace of {}, for Perfetto or chrome://tracing: {}",
                     profile_table(streams, batches, counts),
                     batches == 1 ? "this batch" : fmt::format("these {} batches", batches),
                     file.string());
}

}  // namespace mpt
