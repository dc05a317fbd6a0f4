// nccl::notice_board: a rank that has failed posts the reason for the other ranks.
//
// NCCL's abort concerns one rank only: the other ranks would wait until their deadlines. Their
// watchdogs read the notice board a few times a second.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include <parallel/core/error.hpp>

namespace parallel::nccl {

/// Thread-safe. Only the first notice counts.
class notice_board {
 public:
  virtual ~notice_board() = default;
  virtual void post(int rank, std::string const& problem) = 0;
  /// The first notice, which names its rank; empty: no rank has failed.
  [[nodiscard]] virtual std::optional<std::string> read() = 0;
};

/// The notice board of ranks that are threads of one process.
class shared_notice_board final : public notice_board {
 public:
  void post(int rank, std::string const& problem) override {
    std::scoped_lock const lock(mutex_);
    if (!reason_) reason_ = concat("rank ", rank, " failed: ", problem);
  }
  [[nodiscard]] std::optional<std::string> read() override {
    std::scoped_lock const lock(mutex_);
    return reason_;
  }

 private:
  std::mutex mutex_;
  std::optional<std::string> reason_;
};

}  // namespace parallel::nccl
