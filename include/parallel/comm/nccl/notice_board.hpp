// nccl::notice_board: a rank that has failed posts the reason for the other ranks.
//
// NCCL's abort concerns one rank only: the other ranks would wait until their deadlines. Their
// watchdogs read the notice board a few times a second.
#pragma once

#include <optional>
#include <string>

#include <parallel/core/config.hpp>

namespace parallel::nccl {

/// Thread-safe. Only the first notice counts.
class notice_board {
 public:
  virtual ~notice_board() = default;
  virtual void post(int rank, std::string const& problem) = 0;
  /// The first notice, which names its rank; empty: no rank has failed.
  [[nodiscard]] virtual std::optional<std::string> read() = 0;
};

}  // namespace parallel::nccl
