// attempt: work on several streams, and what becomes of them when an exception leaves it.
#pragma once

#include <parallel/core/error.hpp>

namespace parallel::train {

/// Blocks until nothing runs on a stream any more, whatever has failed.
template <class Stream>
void drain(Stream& of) noexcept {
  if constexpr (requires { of.drain(); }) {
    of.drain();
  } else {
    try {
      of.synchronize();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the one that leaves says why
    }
  }
}

/// work(). When an exception leaves it, the ranks of `world`, which may wait for this one, are told
/// what it says, and each(drain) drains every stream, so that nothing that was enqueued runs on
/// when its memory goes. Exchanges on other streams are over too when one of these was to wait for
/// them (host::stream::drain).
template <class Comm, class EachStream, class Work>
decltype(auto) attempt(Comm& world, EachStream const& each, Work&& work) {
  try {
    return work();
  } catch (...) {
    world.abort(message_of_current_exception());
    each([](auto& stream) { drain(stream); });
    throw;
  }
}

}  // namespace parallel::train
