// threads::detail::rendezvous: ranks that are threads come together for one operation.
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

/// What a rank brings to a rendezvous.
struct participant {
  signature what;
  operation op = {};  // what others take from its `in` they count as sent by it
};

enum class rendezvous_kind : std::uint8_t { collective, message, exchange };

/// Names a rendezvous: the number-th of its kind in a group, of messages the number-th of (from,
/// to, tag). Ranks are those of the world.
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
  std::vector<std::optional<participant>> arrived;  // as ranks
  std::vector<participant> participants;            // when all have come
  std::size_t missing = 0;
  std::vector<int> inside;  // ranks that work in it, once all have come
  std::string mismatch;
  std::condition_variable changed;

  /// Where `rank` stands in `ranks`; behind the last when it does not.
  [[nodiscard]] std::size_t place_of(int rank) const {
    std::size_t place = 0;
    while (place < ranks.size() && ranks[place] != rank) ++place;
    return place;
  }
};

}  // namespace parallel::threads::detail
