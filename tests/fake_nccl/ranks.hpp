// Ranks as threads, each on its own fake GPU, connected by the fake NCCL.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/nccl/communicator.hpp>
#include <parallel/device/cuda/device.hpp>
#include <parallel/ops/cuda.hpp>

#include <doctest/doctest.h>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/fake_nccl.hpp"

namespace fake_nccl {

/// A rank's GPU, its stream for exchanges and a buffer to exchange.
struct rank_gpu {
  parallel::cuda::device device = fake_cuda::current_gpu();
  parallel::buffer<float> x = device.allocate_zeroed<float>(8);
  parallel::cuda::stream s{parallel::comm_options<parallel::nccl::communicator>(device)};
};

/// Checks that the library has seen no mistake and that every communicator has ended.
inline void check_ended() {
  CHECK(history().failures.empty());
  CHECK(live_communicators() == 0);
}

/// The notice board of ranks that are threads of one process.
class shared_notice_board final : public parallel::nccl::notice_board {
 public:
  void post(int rank, std::string const& problem) override {
    std::scoped_lock const lock(mutex_);
    if (!reason_) reason_ = parallel::concat("rank ", rank, " failed: ", problem);
  }
  [[nodiscard]] std::optional<std::string> read() override {
    std::scoped_lock const lock(mutex_);
    return reason_;
  }

 private:
  std::mutex mutex_;
  std::optional<std::string> reason_;
};

/// A launcher: launch(ranks, program) calls program(communicator) for each rank, with its GPU
/// current, and rethrows the first failure that is not the echo of another rank's.
[[nodiscard]] inline auto ranks(parallel::nccl::communicator_options options = {}) {
  return [options](int number, auto const& program) {
    auto const id = parallel::nccl::make_unique_id();
    auto const board = std::make_shared<shared_notice_board>();
    std::mutex mutex;
    std::exception_ptr cause, echo;
    {
      std::vector<std::jthread> threads;
      for (int rank = 0; rank < number; ++rank)
        threads.emplace_back([&, rank] {
          try {
            parallel::cuda::check(cudaSetDevice(rank), "cudaSetDevice");
            parallel::nccl::communicator comm(id, rank, number, options, board);
            try {
              program(comm);
            } catch (parallel::aborted const&) {
              throw;
            } catch (std::exception const& problem) {  // the program may have moved comm
              board->post(rank, problem.what());
              throw;
            }
          } catch (parallel::aborted const&) {
            std::scoped_lock const lock(mutex);
            echo = std::current_exception();
          } catch (...) {
            std::scoped_lock const lock(mutex);
            if (!cause) cause = std::current_exception();
          }
        });
    }
    if (cause) std::rethrow_exception(cause);
    if (echo) std::rethrow_exception(echo);
  };
}

}  // namespace fake_nccl
