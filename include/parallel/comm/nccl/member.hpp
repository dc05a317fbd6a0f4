// nccl::member: one of a rank's NCCL communicators, and what has been enqueued on it.
#pragma once

#include <nccl.h>

#include <atomic>
#include <deque>
#include <string>

#include <parallel/comm/nccl/waiting_calls.hpp>

namespace parallel::nccl {

/// Of one rank: without a communicator of NCCL.
struct member {
  std::atomic<ncclComm_t> comm = nullptr;  // an abort takes it away
  std::string const name;
  waiting_calls waiting = {};
  std::deque<ncclWindow_t> windows = {};  // where NCCL writes them, a while after it was asked

  /// As NCCL tells it; ncclSuccess without a communicator. Does not ask CUDA.
  [[nodiscard]] ncclResult_t state() const {
    ncclResult_t out = ncclSuccess;
    if (ncclComm_t const of = comm; of != nullptr)
      static_cast<void>(ncclCommGetAsyncError(of, &out));
    return out;
  }
};

}  // namespace parallel::nccl
