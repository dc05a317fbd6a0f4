// attempt: runs work on several streams, and aborts and drains them when an exception leaves it.
#pragma once

#include <parallel/core/error.hpp>

namespace parallel::train {

/// Blocks until nothing runs on a stream any more, whatever has failed.
template <class Stream>
void drain(Stream& stream) noexcept {
  if constexpr (requires { stream.drain(); }) {
    stream.drain();
  } else {
    try {
      stream.synchronize();
    } catch (...) {  // the exception that leaves says why
    }
  }
}

/// Returns work(). When an exception leaves it, the ranks of `world`, which may wait for this one,
/// are told its message, and for_each_stream(drain) drains every stream, so that no enqueued work
/// runs on after its memory is freed. Exchanges on other streams are complete too when one of these
/// streams was to wait for them (host::stream::drain).
template <class Comm, class EachStream, class Work>
decltype(auto) attempt(Comm& world, EachStream const& for_each_stream, Work&& work) {
  try {
    return work();
  } catch (...) {
    world.abort(message_of_current_exception());
    for_each_stream([](auto& stream) { drain(stream); });
    throw;
  }
}

}  // namespace parallel::train
