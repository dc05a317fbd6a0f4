// nccl::notice_board: where a rank that has failed tells the others why.
//
// NCCL's abort is each rank's own: it says nothing to others, which would wait for their deadline.
// Their watchdogs look here a few times a second.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include <parallel/core/error.hpp>

namespace parallel::nccl {

/// Thread-safe. The first notice stays.
class notice_board {
 public:
  virtual ~notice_board() = default;
  /// `rank` has failed by `problem`.
  virtual void post(int rank, std::string const& problem) = 0;
  /// The first notice, which names its rank; none: nobody has failed.
  [[nodiscard]] virtual std::optional<std::string> read() = 0;
};

/// Of ranks that are threads of one process.
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
