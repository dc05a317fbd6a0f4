// threads::detail::rendezvous: the meeting of ranks, which are threads, for one operation.
#pragma once

#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <parallel/comm/signature.hpp>

namespace parallel::threads::detail {

/// A rank that has arrived at a rendezvous: the signature of its call, and its operation.
struct participant {
  signature call_signature;
  operation op = {};  // reports the bytes that other ranks read from op.in as sent
};

enum class rendezvous_kind : std::uint8_t { collective, message, exchange };

/// Identifies a rendezvous by its number. Collectives and exchanges are numbered for each group,
/// messages for each triple (from, to, tag). `from` and `to` are world ranks.
struct rendezvous_name {
  int group = 0;
  rendezvous_kind kind = rendezvous_kind::collective;
  int from = -1;
  int to = -1;
  int tag = 0;
  std::uint64_t number = 0;
  auto operator<=>(rendezvous_name const&) const = default;
};

/// The state of one meeting, from the arrival of its first rank until its last rank has left.
struct rendezvous {
  rendezvous_name name;
  std::vector<int> ranks;
  std::vector<std::optional<participant>> arrived;  // in the order of `ranks`
  std::vector<participant> participants;            // set when all have arrived
  std::size_t missing = 0;                          // the number of ranks that have not arrived
  std::vector<int> unfinished;  // after all have arrived: the ranks that still run the operation
  std::string mismatch;
  std::condition_variable changed;

  /// The position of `rank` in `ranks`, or ranks.size() if it is not a member.
  [[nodiscard]] std::size_t position_of(int rank) const {
    std::size_t position = 0;
    while (position < ranks.size() && ranks[position] != rank) ++position;
    return position;
  }
};

}  // namespace parallel::threads::detail
