// threads::detail::meeting: ranks that are threads come together for one operation.
#pragma once

#include <atomic>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <parallel/comm/signature.hpp>

namespace parallel::threads::detail {

/// What a rank brings to a meeting.
struct seat {
  signature what;
  void const* in = nullptr;
  void* out = nullptr;
  std::atomic<std::uint64_t>* sent = nullptr;  // counts what others take from `in`; may be null
};

enum class meeting_kind : std::uint8_t { collective, message, exchange };

/// Names a meeting: the number-th of its kind in a group, of messages the number-th of (from, to,
/// tag). Ranks are those of the world.
struct meeting_name {
  int group = 0;
  meeting_kind kind = meeting_kind::collective;
  int from = -1;
  int to = -1;
  int tag = 0;
  std::uint64_t number = 0;
  auto operator<=>(meeting_name const&) const = default;
};

struct meeting {
  meeting_name name;
  std::vector<int> ranks;
  std::vector<std::optional<seat>> arrived;  // as ranks
  std::vector<seat> seats;                   // when all have come
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
