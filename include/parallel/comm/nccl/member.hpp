// nccl::member: one of a rank's NCCL communicators, and what has been enqueued on it and is not
// known to be over.
#pragma once

#include <nccl.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <parallel/comm/flight_recorder.hpp>
#include <parallel/comm/operation.hpp>
#include <parallel/comm/request.hpp>
#include <parallel/comm/signature.hpp>
#include <parallel/core/error.hpp>
#include <parallel/core/patience.hpp>
#include <parallel/device/cuda/event.hpp>

namespace parallel::nccl {

/// An operation that has been enqueued.
struct pending {
  cuda::event done;
  operation what;
  std::uint64_t number = 0;  // of the communicator's calls
  std::shared_ptr<parallel::detail::kept> owners;
  noted_calls notes = {};
  std::optional<cuda::event> begins = {};  // reached when the stream has come to it; until noted
  std::chrono::milliseconds deadline = {};
  std::optional<patience> limit = {};  // begins when it is the first of its communicator
};

/// Of one rank: without a communicator of NCCL.
struct member {
  ncclComm_t comm = nullptr;
  std::string name;
  std::deque<pending> waiting = {};       // run in this order
  std::deque<ncclWindow_t> windows = {};  // where NCCL writes them, a while after it was asked

  /// As NCCL tells it; ncclSuccess without a communicator.
  [[nodiscard]] ncclResult_t state() const {
    ncclResult_t out = ncclSuccess;
    if (comm != nullptr) static_cast<void>(ncclCommGetAsyncError(comm, &out));
    return out;
  }

  /// Takes away what is over, as far as the GPU tells. `notes`: that, and what has begun, is noted.
  /// Throws `error` when work before has failed.
  void forget_completed(bool notes) {
    for (; !waiting.empty() && waiting.front().done.ready(); waiting.pop_front())
      if (notes) waiting.front().notes.now(call_state::done);
    if (!notes || waiting.empty()) return;
    auto& first = waiting.front();
    if (!first.begins || !first.begins->ready()) return;
    first.notes.now(call_state::running);
    first.begins.reset();
  }

  /// "call 7, all_reduce(sum) of 5 f32 over tensor at step.cpp:31".
  [[nodiscard]] std::string text_of_first() const {
    auto const& first = waiting.front();
    return concat("call ", first.number, ", ",
                  describe(signature_of(first.what, first.number, name)));
  }
};

}  // namespace parallel::nccl
