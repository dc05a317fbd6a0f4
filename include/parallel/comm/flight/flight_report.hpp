// flight_report: what the rings of all ranks show together: which call each rank was in, which
// ranks waited for which, and where the ranks first made different calls.
//
// Rings can be read while they are written, and after their process was killed.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <parallel/comm/agreement.hpp>
#include <parallel/comm/flight/flight_ring.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/machine_name.hpp>

namespace parallel {

/// The contents of one rank's ring.
struct flight_log {
  int rank = 0;
  int ranks = 1;
  std::int64_t process = 0;
  std::string machine = {};
  std::vector<std::uint64_t> groups = {};  ///< of which the rank is a member
  std::vector<flight_call> calls = {};     ///< by ascending number
};

/// Reads the header of a ring's file. Throws when the file is not a ring.
[[nodiscard]] inline flight_header read_flight_header(input_file const& file) {
  flight_header header;
  file.read(0, std::as_writable_bytes(std::span(&header, 1)), "its header");
  require(header.magic == flight_header::flight_magic, file.name(), ": is no flight recorder's");
  require(header.version == 2 && header.call_bytes == sizeof(flight_call), file.name(),
          ": was written by another version of the program; read it with that");
  require(header.capacity >= 1 && header.capacity <= flight_header::max_capacity &&
              header.rank >= 0 && header.rank < header.ranks &&
              header.groups <= header.group.size(),
          file.name(), ": its header is damaged");
  header.machine.back() = '\0';
  return header;
}

/// Reads a ring's file, without calls that were being written. Throws when the file is not a ring.
[[nodiscard]] inline flight_log read_flight(std::filesystem::path const& path) {
  input_file const file(path);
  auto const header = read_flight_header(file);
  flight_log out{header.rank, header.ranks, header.process, header.machine.data()};
  out.groups.assign(header.group.begin(),
                    header.group.begin() + static_cast<std::ptrdiff_t>(header.groups));
  std::vector<flight_call> slots(header.capacity);
  file.read(sizeof header, std::as_writable_bytes(std::span(slots)), "its calls");
  for (std::uint64_t i = 0; i < slots.size(); ++i) {
    auto& call = slots[i];
    if (call.number == flight_call::none || call.number % slots.size() != i ||
        call.state > call_state::completed ||
        call.call_signature.kind > operation_kind::agreement ||
        call.call_signature.type > dtype::f64 || call.call_signature.combine > reduction::wide_sum)
      continue;
    call.call_signature.axis.back() = '\0';
    call.call_signature.file.back() = '\0';
    out.calls.push_back(call);
  }
  std::ranges::sort(out.calls, {}, &flight_call::number);
  return out;
}

/// The rings in a run's folder, by rank.
[[nodiscard]] inline std::vector<flight_log> read_flights(std::filesystem::path const& folder) {
  std::vector<flight_log> out;
  std::error_code problem;
  for (auto const& entry : std::filesystem::directory_iterator(folder, problem)) {
    auto const name = entry.path().filename().native();
    if (name.starts_with("flight-rank") && name.ends_with(".ring"))
      out.push_back(read_flight(entry.path()));
  }
  if (problem) files::failure(folder, "cannot list this folder", problem.value());
  std::ranges::sort(out, {}, &flight_log::rank);
  return out;
}

/// A call in which ranks wait for others that have not entered it.
struct flight_wait {
  flight_call call;  ///< of the rank that has waited longest
  std::vector<int> waiting_ranks;
  std::vector<int> absent_ranks;
};

/// The result of comparing the rings of all ranks.
struct flight_findings {
  std::vector<flight_wait> waits;  ///< the longest first
  std::vector<int> late;   ///< ranks that others wait for and that are in no call themselves
  std::string divergence;  ///< the first collective in which ranks differ; empty: none
};

namespace detail {

/// The collectives of one group, by rank and by their number in the group.
using group_calls = std::map<int, std::map<std::uint64_t, flight_call const*>>;

/// Adds the waits of a group's ranks.
inline void add_waits(std::vector<flight_wait>& out, group_calls const& group) {
  std::map<int, std::int64_t> reached;  // the last collective that the rank has begun; -1: none
  std::set<std::uint64_t> open;
  for (auto const& [rank, calls] : group) {
    reached[rank] = -1;
    for (auto const& [sequence, call] : calls) {
      if (call->state == call_state::waiting) continue;
      reached[rank] = static_cast<std::int64_t>(sequence);
      if (call->state == call_state::running) open.insert(sequence);
    }
  }
  for (auto const sequence : open) {
    flight_wait wait;
    for (auto const& [rank, calls] : group) {
      if (reached[rank] < static_cast<std::int64_t>(sequence)) wait.absent_ranks.push_back(rank);
      auto const found = calls.find(sequence);
      if (found == calls.end() || found->second->state != call_state::running) continue;
      if (wait.waiting_ranks.empty() || found->second->state_since < wait.call.state_since)
        wait.call = *found->second;
      wait.waiting_ranks.push_back(rank);
    }
    if (!wait.absent_ranks.empty()) out.push_back(std::move(wait));
  }
}

/// Describes the first collective in which a group's ranks differ, and stores its time in `time`.
[[nodiscard]] inline std::string first_divergence(group_calls const& group, std::int64_t& time) {
  std::map<std::uint64_t, std::map<int, flight_call const*>> by_sequence;
  for (auto const& [rank, calls] : group)
    for (auto const& [sequence, call] : calls) by_sequence[sequence][rank] = call;
  for (auto const& [sequence, calls] : by_sequence) {
    std::vector<signature> signatures;
    std::vector<int> ranks;
    time = calls.begin()->second->state_since;
    for (auto const& [rank, call] : calls) {
      signatures.push_back(call->call_signature);
      if (call->call_signature.kind == operation_kind::split)
        signatures.back().peer = 0;  // colors may differ
      ranks.push_back(rank);
      time = std::min(time, call->state_since);
    }
    if (auto text = disagreement(signatures, call_sites::may_differ, ranks); !text.empty())
      return text;
  }
  return {};
}

}  // namespace detail

/// Compares the rings of a run's ranks, of which some may be missing. A rank whose ring has
/// forgotten calls of a group is left out there. Cost: O(n log n) for n calls.
[[nodiscard]] inline flight_findings findings(std::span<flight_log const> logs) {
  flight_findings result;
  std::map<std::uint64_t, detail::group_calls> groups;
  std::set<int> busy;  // ranks that are in a call
  for (auto const& log : logs) {
    // The ring has forgotten nothing: the rank takes part in these groups even without a call.
    if (log.calls.empty() || log.calls.front().number == 0)
      for (auto const group : log.groups) groups[group][log.rank];
    for (auto const& call : log.calls) {
      if (call.state == call_state::running) busy.insert(log.rank);
      if (!is_message(call.call_signature.kind)) {
        groups[call.group][log.rank].emplace(call.call_signature.sequence, &call);
      } else if (call.state == call_state::running) {
        result.waits.push_back({call, {log.rank}, {call.call_signature.peer}});
      }
    }
  }
  std::int64_t earliest = 0;
  for (auto const& [number, group] : groups) {
    detail::add_waits(result.waits, group);
    std::int64_t time = 0;
    auto text = detail::first_divergence(group, time);
    if (text.empty() || (!result.divergence.empty() && time >= earliest)) continue;
    result.divergence = std::move(text);
    earliest = time;
  }
  std::ranges::sort(result.waits, {},
                    [](flight_wait const& wait) { return wait.call.state_since; });
  std::set<int> late;
  for (auto const& wait : result.waits)
    for (int const rank : wait.absent_ranks)
      if (!busy.contains(rank)) late.insert(rank);
  result.late.assign(late.begin(), late.end());
  return result;
}

/// Whether the rank's process still runs; false for a process of another machine.
[[nodiscard]] inline bool is_running(flight_log const& log) {
  auto const process = static_cast<::pid_t>(log.process);
  return !log.machine.empty() && machine_name().starts_with(log.machine) && process > 0 &&
         (::kill(process, 0) == 0 || errno == EPERM);
}

/// A report for people: each rank's last `max_calls` calls, then the result of the comparison.
/// Times are measured up to now where a rank of this machine still runs, else up to the last note
/// of any rank.
[[nodiscard]] inline std::string report(std::span<flight_log const> logs,
                                        std::size_t max_calls = 3) {
  std::int64_t last = 0;
  for (auto const& log : logs)
    for (auto const& call : log.calls) last = std::max(last, call.state_since);
  if (std::ranges::any_of(logs, is_running)) last = flight_recorder::clock_now();
  auto const seconds = [&](flight_call const& call) {
    auto const tenths = (last - call.state_since) / 100'000'000;
    return concat(tenths / 10, '.', tenths % 10, " s");
  };
  std::string text;
  std::set<int> missing;
  for (int rank = 0; rank < (logs.empty() ? 0 : logs.front().ranks); ++rank) missing.insert(rank);
  for (auto const& log : logs) {
    missing.erase(log.rank);
    text += concat("rank ", log.rank, " (process ", log.process, " on ", log.machine, ")\n");
    if (log.calls.empty()) text += "  made no call\n";
    for (auto i = log.calls.size() - std::min(max_calls, log.calls.size()); i < log.calls.size();
         ++i)
      text += concat("  ", to_string(log.calls[i], last), '\n');
  }
  if (!missing.empty())
    text += concat(name_ranks(std::vector(missing.begin(), missing.end())), " left no file here\n");
  auto const result = findings(logs);
  for (auto const& wait : result.waits)
    text +=
        concat(name_ranks(wait.waiting_ranks), wait.waiting_ranks.size() > 1 ? " wait" : " waits",
               " for ", name_ranks(wait.absent_ranks), " since ", seconds(wait.call), " in ",
               describe(wait.call.call_signature), '\n');
  if (!result.late.empty())
    text += concat("late: ", name_ranks(result.late), result.late.size() > 1 ? " were" : " was",
                   " in no call while others waited\n");
  else if (!result.waits.empty())
    text += "late: none; those that are waited for were themselves in calls\n";
  if (!result.divergence.empty()) text += concat("first divergence: ", result.divergence, '\n');
  bool const some_running = std::ranges::any_of(logs, [](flight_log const& log) {
    return std::ranges::any_of(
        log.calls, [](flight_call const& call) { return call.state == call_state::running; });
  });
  if (result.waits.empty() && result.divergence.empty())
    text += some_running ? "all came to the calls that were under way; a rank that stalled within "
                           "one cannot be told from the others\n"
                         : "no rank waited for another, and all did the same\n";
  return text;
}

}  // namespace parallel
