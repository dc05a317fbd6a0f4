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

/// The contribution of a rank to a rendezvous.
struct participant {
  signature call_signature;
  operation op = {};  // counts what others read from its `in` as sent
};

enum class rendezvous_kind : std::uint8_t { collective, message, exchange };

/// Names a rendezvous: its number among those of its kind in a group, or for messages among those
/// of (from, to, tag). Ranks are world ranks.
struct rendezvous_name {
  int group = 0;
  rendezvous_kind kind = rendezvous_kind::collective;
  int from = -1;
  int to = -1;
  int tag = 0;
  std::uint64_t number = 0;
  auto operator<=>(rendezvous_name const&) const = default;
};

struct rendezvous {
  rendezvous_name name;
  std::vector<int> ranks;
  std::vector<std::optional<participant>> arrived;  // in the order of `ranks`
  std::vector<participant> participants;            // set when all have arrived
  std::size_t missing = 0;
  std::vector<int> inside;  // after all have arrived: ranks that still work in it
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
