// nccl::member: one of a rank's NCCL communicators, with the calls that are enqueued on it.
#pragma once

#include <nccl.h>

#include <atomic>
#include <deque>
#include <string>

#include <parallel/comm/nccl/waiting_calls.hpp>

namespace parallel::nccl {

/// A communicator of this rank. If it has only one rank, there is no NCCL communicator, and `comm`
/// is null.
struct member {
  std::atomic<ncclComm_t> comm = nullptr;  // an abort sets it to null
  std::string const name;
  waiting_calls waiting = {};
  std::deque<ncclWindow_t> windows =
      {};  // stay at their addresses, since NCCL writes them after the call

  /// The state that NCCL reports; ncclSuccess without a communicator. Does not call CUDA.
  [[nodiscard]] ncclResult_t state() const {
    ncclResult_t out = ncclSuccess;
    if (ncclComm_t const current = comm; current != nullptr)
      static_cast<void>(ncclCommGetAsyncError(current, &out));
    return out;
  }
};

}  // namespace parallel::nccl
