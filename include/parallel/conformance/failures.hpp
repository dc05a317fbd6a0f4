// What the other ranks are told when one gives up or does not come.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <parallel/conformance/values.hpp>
#include <parallel/core/error.hpp>

namespace parallel::conformance {

/// Where ranks wait for one that does not come.
enum class waiting { in_all_to_all, in_message, in_barrier };
inline constexpr waiting all_waits[] = {waiting::in_all_to_all, waiting::in_message,
                                        waiting::in_barrier};

/// What this rank is told when the last rank calls `stop(part)` instead of coming to a part's call,
/// which may be when others have yet to hear that the part is there.
template <class C, class Stop>
std::string told_without_last(C& comm, waiting how, Stop stop) {
  int const last = comm.size() - 1;
  std::vector<float> x(static_cast<std::size_t>(2 * comm.size())), y(x.size());
  typename C::stream_type s;
  return message_of([&] {
    C part = comm.split(0, "tensor");
    if (part.rank() == last)
      stop(part);
    else if (how == waiting::in_all_to_all)
      part.all_to_all(s, std::span<float>(y), x).wait();
    else if (how == waiting::in_message)
      part.recv(s, std::span<float>(y), last).wait();
    else
      part.barrier(s).wait();
  });
}

/// An abort by the last rank, through a part, reaches ranks that wait in calls of the part.
template <class C>
void check_abort(C comm, waiting how) {
  auto const told = told_without_last(comm, how, [](C& part) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    part.abort("the disk is full");
  });
  auto const last = comm.size() - 1;
  auto const expected = concat("rank ", last, " failed: the disk is full");
  require(comm.rank() == last || told.starts_with(expected), "expected \"", expected, "\", not \"",
          told, "\"");
}

/// An abort by the last rank is heard by ranks that make no call, when they ask (tells_aborts).
template <class C>
void check_heard(C comm) {
  require(!comm.abort_reason(), "a reason before anybody has aborted");
  typename C::stream_type s;
  comm.barrier(s).wait();
  auto const last = comm.size() - 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // all have left the barrier
  if (comm.rank() == last) comm.abort("the disk is full");
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!comm.abort_reason() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  auto const told = comm.abort_reason().value_or("nothing");
  auto const expected = concat("rank ", last, " failed: the disk is full");
  require(told == expected, "expected \"", expected, "\", not \"", told, "\"");
}

/// When an exception leaves calls that have not finished, and whoever catches it aborts with its
/// text, the others are told that text, not only that there was an exception.
template <class C>
void check_reason(C comm, waiting how) {
  auto const last = comm.size() - 1;
  auto const told = told_without_last(comm, how, [last](C& part) {
    try {
      typename C::stream_type s;
      float x = 0;
      auto const pending = part.recv(s, std::span<float>(&x, 1), (last + 1) % part.size(), 7);
      fail("the disk is full");
    } catch (error const& problem) {
      part.abort(problem.what());
    }
  });
  auto const expected = concat("rank ", last, " failed: the disk is full");
  require(comm.rank() == last || told.starts_with(expected), "expected \"", expected, "\", not \"",
          told, "\"");
}

/// A rank that does not come is named when the deadline (`seconds`) has passed.
template <class C>
void check_deadline(C comm, waiting how, char const* seconds) {
  auto const last = comm.size() - 1;
  auto const told = told_without_last(comm, how, [&](C&) {
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * std::stod(seconds)));
  });
  // In a barrier of messages a rank may wait for one that waits for the last.
  auto const expected = concat(" waited ", seconds, " s for rank ") +
                        (how == waiting::in_barrier ? "" : std::to_string(last));
  require(comm.rank() == last || told.find(expected) != std::string::npos, "expected \"", expected,
          "\", not \"", told, "\"");
  require(comm.rank() == last || told.find(" over tensor at ") != std::string::npos,
          "no axis and place in \"", told, "\"");
}

}  // namespace parallel::conformance
