// failures: tests of the messages that ranks get when another rank aborts or does not arrive.
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

/// The call in which ranks wait for a rank that does not arrive.
enum class waiting { in_all_to_all, in_message, in_barrier };
/// All calls in which ranks can wait.
inline constexpr waiting all_waits[] = {waiting::in_all_to_all, waiting::in_message,
                                        waiting::in_barrier};

/// The message of the error on this rank when the last rank calls `stop(part)` instead of a
/// collective call of the part. It may do so before other ranks have completed the split.
template <class C, class Stop>
std::string message_without_last(C& comm, waiting kind, Stop stop) {
  int const last = comm.size() - 1;
  std::vector<float> x(static_cast<std::size_t>(2 * comm.size())), y(x.size());
  typename C::stream_type s;
  return message_of([&] {
    C part = comm.split(0, "tensor");
    if (part.rank() == last)
      stop(part);
    else if (kind == waiting::in_all_to_all)
      part.all_to_all(s, std::span<float>(y), x).wait();
    else if (kind == waiting::in_message)
      part.recv(s, std::span<float>(y), last).wait();
    else
      part.barrier(s).wait();
  });
}

/// An abort by the last rank through a part reaches the ranks that wait in calls of the part.
template <class C>
void check_abort(C comm, waiting kind) {
  auto const message = message_without_last(comm, kind, [](C& part) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    part.abort("the disk is full");
  });
  auto const last = comm.size() - 1;
  auto const expected = concat("rank ", last, " failed: the disk is full");
  require(comm.rank() == last || message.starts_with(expected), "expected \"", expected,
          "\", not \"", message, "\"");
}

/// Ranks that make no call learn of an abort by the last rank through abort_reason() (concept
/// tells_aborts).
template <class C>
void check_abort_polling(C comm) {
  require(!comm.abort_reason(), "a reason before anybody has aborted");
  typename C::stream_type s;
  comm.barrier(s).wait();
  auto const last = comm.size() - 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // all have left the barrier
  if (comm.rank() == last) comm.abort("the disk is full");
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!comm.abort_reason() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  auto const message = comm.abort_reason().value_or("nothing");
  auto const expected = concat("rank ", last, " failed: the disk is full");
  require(message == expected, "expected \"", expected, "\", not \"", message, "\"");
}

/// If an exception ends a scope with unfinished calls, and its handler aborts with the exception's
/// text, then the other ranks get that text, not only the news that there was an exception.
template <class C>
void check_reason(C comm, waiting kind) {
  auto const last = comm.size() - 1;
  auto const message = message_without_last(comm, kind, [last](C& part) {
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
  require(comm.rank() == last || message.starts_with(expected), "expected \"", expected,
          "\", not \"", message, "\"");
}

/// When the deadline (`seconds`) of `comm` has passed, the message names the rank that did not
/// arrive, the axis and the call site: it has " waited SECONDS s for rank N" and " over tensor at ",
/// as `overdue_message` (comm/agreement.hpp) writes them.
template <class C>
void check_deadline(C comm, waiting kind, char const* seconds) {
  auto const last = comm.size() - 1;
  auto const message = message_without_last(comm, kind, [&](C&) {
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * std::stod(seconds)));
  });
  // in a barrier made of messages a rank may wait for a rank that waits for the last one
  auto const expected = concat(" waited ", seconds, " s for rank ") +
                        (kind == waiting::in_barrier ? "" : std::to_string(last));
  require(comm.rank() == last || message.find(expected) != std::string::npos, "expected \"",
          expected, "\", not \"", message, "\"");
  require(comm.rank() == last || message.find(" over tensor at ") != std::string::npos,
          "no axis and call site in \"", message, "\"");
}

}  // namespace parallel::conformance
