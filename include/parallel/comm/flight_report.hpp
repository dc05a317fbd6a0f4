// flight_report: what the rings of all ranks say together: who was in which call, for whom ranks
// waited, and where they first did not do the same.
//
// Rings are read as they lie, also while they are written or after their process was killed.
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
#include <parallel/comm/flight_ring.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/machine_name.hpp>

namespace parallel {

/// What one rank's ring holds.
struct flight_log {
  int rank = 0;
  int ranks = 1;
  std::int64_t process = 0;
  std::string machine = {};
  std::vector<std::uint64_t> groups = {};  // that the rank is one of
  std::vector<flight_call> calls = {};     // in the order of their numbers
};

/// Reads how a ring's file begins. Throws when it is none.
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

/// Reads a ring's file. Throws when it is none; leaves out calls that were being written.
[[nodiscard]] inline flight_log read_flight(std::filesystem::path const& path) {
  input_file const file(path);
  auto const header = read_flight_header(file);
  flight_log out{header.rank, header.ranks, header.process, header.machine.data()};
  out.groups.assign(header.group.begin(),
                    header.group.begin() + static_cast<std::ptrdiff_t>(header.groups));
  std::vector<flight_call> slots(header.capacity);
  file.read(sizeof header, std::as_writable_bytes(std::span(slots)), "its calls");
  for (std::uint64_t i = 0; i < slots.size(); ++i) {
    auto& one = slots[i];
    if (one.number == flight_call::none || one.number % slots.size() != i ||
        one.now > call_state::done || one.what.kind > operation_kind::agreement ||
        one.what.type > dtype::f64 || one.what.combine > reduction::wide_sum)
      continue;
    one.what.axis.back() = '\0';
    one.what.file.back() = '\0';
    out.calls.push_back(one);
  }
  std::ranges::sort(out.calls, {}, &flight_call::number);
  return out;
}

/// The rings of a run's folder, by rank.
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

/// A call in which ranks wait for others that have not come to it.
struct flight_wait {
  flight_call call;  // of the first rank that waits
  std::vector<int> waiting;
  std::vector<int> absent;
};

/// What rings say together.
struct flight_findings {
  std::vector<flight_wait> waits;  // the longest first
  std::vector<int> late;           // ranks that others wait for and that are in no call themselves
  std::string divergence;          // the first collective that ranks made differently; or empty
};

namespace detail {

/// The collectives of one group, by rank and their place among them.
using group_calls = std::map<int, std::map<std::uint64_t, flight_call const*>>;

/// Who waits in a group, and for whom.
inline void add_waits(std::vector<flight_wait>& out, group_calls const& group) {
  std::map<int, std::int64_t> reached;  // the last collective that has begun; -1: none
  std::set<std::uint64_t> open;
  for (auto const& [rank, calls] : group) {
    reached[rank] = -1;
    for (auto const& [sequence, call] : calls) {
      if (call->now == call_state::waiting) continue;
      reached[rank] = static_cast<std::int64_t>(sequence);
      if (call->now == call_state::running) open.insert(sequence);
    }
  }
  for (auto const sequence : open) {
    flight_wait wait;
    for (auto const& [rank, calls] : group) {
      if (reached[rank] < static_cast<std::int64_t>(sequence)) wait.absent.push_back(rank);
      auto const found = calls.find(sequence);
      if (found == calls.end() || found->second->now != call_state::running) continue;
      if (wait.waiting.empty() || found->second->since < wait.call.since)
        wait.call = *found->second;
      wait.waiting.push_back(rank);
    }
    if (!wait.absent.empty()) out.push_back(std::move(wait));
  }
}

/// The first place where a group's ranks did not do the same; its time goes to `when`.
[[nodiscard]] inline std::string first_divergence(group_calls const& group, std::int64_t& when) {
  std::map<std::uint64_t, std::map<int, flight_call const*>> by_place;
  for (auto const& [rank, calls] : group)
    for (auto const& [sequence, call] : calls) by_place[sequence][rank] = call;
  for (auto const& [sequence, calls] : by_place) {
    std::vector<signature> made;
    std::vector<int> ranks;
    when = calls.begin()->second->since;
    for (auto const& [rank, call] : calls) {
      made.push_back(call->what);
      if (call->what.kind == operation_kind::split) made.back().peer = 0;  // colors may differ
      ranks.push_back(rank);
      when = std::min(when, call->since);
    }
    if (auto text = disagreement(made, call_sites::may_differ, ranks); !text.empty()) return text;
  }
  return {};
}

}  // namespace detail

/// What the rings of a run's ranks, of which some may be missing, say together. A rank whose ring
/// has forgotten a group's calls is not spoken of there. Cost: O(n log n) for n calls.
[[nodiscard]] inline flight_findings findings(std::span<flight_log const> logs) {
  flight_findings out;
  std::map<std::uint64_t, detail::group_calls> groups;
  std::set<int> busy;  // ranks that are in a call
  for (auto const& log : logs) {
    // nothing is forgotten: of these groups it is one, also where it has made no call
    if (log.calls.empty() || log.calls.front().number == 0)
      for (auto const group : log.groups) groups[group][log.rank];
    for (auto const& call : log.calls) {
      if (call.now == call_state::running) busy.insert(log.rank);
      if (!is_message(call.what.kind)) {
        groups[call.group][log.rank].emplace(call.what.sequence, &call);
      } else if (call.now == call_state::running) {
        out.waits.push_back({call, {log.rank}, {call.what.peer}});
      }
    }
  }
  std::int64_t earliest = 0;
  for (auto const& [number, group] : groups) {
    detail::add_waits(out.waits, group);
    std::int64_t when = 0;
    auto text = detail::first_divergence(group, when);
    if (text.empty() || (!out.divergence.empty() && when >= earliest)) continue;
    out.divergence = std::move(text);
    earliest = when;
  }
  std::ranges::sort(out.waits, {}, [](flight_wait const& one) { return one.call.since; });
  std::set<int> late;
  for (auto const& wait : out.waits)
    for (int const rank : wait.absent)
      if (!busy.contains(rank)) late.insert(rank);
  out.late.assign(late.begin(), late.end());
  return out;
}

/// Whether the process of a rank still runs, if it is one of this machine.
[[nodiscard]] inline bool still_runs(flight_log const& log) {
  auto const process = static_cast<::pid_t>(log.process);
  return !log.machine.empty() && machine_name().starts_with(log.machine) && process > 0 &&
         (::kill(process, 0) == 0 || errno == EPERM);
}

/// For people: each rank's last `most` calls, then what they say together. Times are before now
/// where a rank of this machine still runs, else before the last note of any rank.
[[nodiscard]] inline std::string report(std::span<flight_log const> logs, std::size_t most = 3) {
  std::int64_t last = 0;
  for (auto const& log : logs)
    for (auto const& call : log.calls) last = std::max(last, call.since);
  if (std::ranges::any_of(logs, still_runs)) last = flight_recorder::clock_now();
  auto const seconds = [&](flight_call const& call) {
    auto const tenths = (last - call.since) / 100'000'000;
    return concat(tenths / 10, '.', tenths % 10, " s");
  };
  std::string out;
  std::set<int> missing;
  for (int rank = 0; rank < (logs.empty() ? 0 : logs.front().ranks); ++rank) missing.insert(rank);
  for (auto const& log : logs) {
    missing.erase(log.rank);
    out += concat("rank ", log.rank, " (process ", log.process, " on ", log.machine, ")\n");
    if (log.calls.empty()) out += "  made no call\n";
    for (auto i = log.calls.size() - std::min(most, log.calls.size()); i < log.calls.size(); ++i)
      out += concat("  ", text_of(log.calls[i], last), '\n');
  }
  if (!missing.empty())
    out += concat(name_ranks(std::vector(missing.begin(), missing.end())), " left no file here\n");
  auto const found = findings(logs);
  for (auto const& wait : found.waits)
    out += concat(name_ranks(wait.waiting), wait.waiting.size() > 1 ? " wait" : " waits", " for ",
                  name_ranks(wait.absent), " since ", seconds(wait.call), " in ",
                  describe(wait.call.what), '\n');
  if (!found.late.empty())
    out += concat("late: ", name_ranks(found.late), found.late.size() > 1 ? " were" : " was",
                  " in no call while others waited\n");
  else if (!found.waits.empty())
    out += "late: none; those that are waited for were themselves in calls\n";
  if (!found.divergence.empty()) out += concat("first divergence: ", found.divergence, '\n');
  bool const inside = std::ranges::any_of(logs, [](flight_log const& log) {
    return std::ranges::any_of(
        log.calls, [](flight_call const& call) { return call.now == call_state::running; });
  });
  if (found.waits.empty() && found.divergence.empty())
    out += inside ? "all came to the calls that were under way; a rank that stood still within one "
                    "cannot be told from the others\n"
                  : "no rank waited for another, and all did the same\n";
  return out;
}

}  // namespace parallel
