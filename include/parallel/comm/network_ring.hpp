// network_ring: how fast every rank is reached by the one of the same number on the machine before,
// so that a slow machine, or a slow direction of a link, can be named.
//
// The ranks of one number, one on each machine, are a ring. Its messages go in rounds in which a
// rank has to do with one other only, so that what is slow slows no other pair; all pairs of a
// round are measured at once, and the time does not grow with the machines.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/neighbours.hpp>
#include <parallel/comm/registered_memory.hpp>
#include <parallel/device/exchanged_memory.hpp>

namespace parallel {

/// By rank: the number of a rank among those of its machine.
[[nodiscard]] inline std::vector<int> numbers_on_machines(
    std::vector<std::string> const& machines) {
  std::map<std::string, int> seen;
  std::vector<int> out;
  for (auto const& machine : machines) out.push_back(seen[machine]++);
  return out;
}

/// By rank: the rank of the same number on the machine before, that of the first being the last;
/// -1 where no other machine has that number.
[[nodiscard]] inline std::vector<int> ranks_before(std::vector<std::string> const& machines) {
  auto const numbers = numbers_on_machines(machines);
  std::map<int, std::vector<int>> rings;
  for (std::size_t rank = 0; rank < numbers.size(); ++rank)
    rings[numbers[rank]].push_back(static_cast<int>(rank));
  std::vector<int> out(machines.size(), -1);
  for (auto const& ring : rings)
    for (std::size_t i = 0, n = ring.second.size(); n > 1 && i < n; ++i)
      out[static_cast<std::size_t>(ring.second[i])] = ring.second[(i + n - 1) % n];
  return out;
}

/// A rate that is less than half of what is usual.
struct slow_rank {
  int rank = 0;
  int from = -1;      // the rank that it receives from so; -1: it sends no faster, to no other
  double rate = 0;    // bytes per second
  double others = 0;  // of the median rank

  [[nodiscard]] bool operator==(slow_rank const&) const = default;
};

/// What is slow, where rank r receives `arriving[r]` bytes per second from `before[r]`. A rank's
/// rate is the better of what it sends and of what it receives: one slow rank slows a message of
/// each neighbour, and both of its own.
[[nodiscard]] inline std::vector<slow_rank> slow_ranks(std::vector<int> const& before,
                                                       std::vector<double> const& arriving) {
  std::vector<double> best(before.size());
  std::vector<double> known;
  for (std::size_t rank = 0; rank < before.size(); ++rank) {
    if (before[rank] < 0) continue;
    for (auto const end : {rank, static_cast<std::size_t>(before[rank])})
      best[end] = std::max(best[end], arriving[rank]);
  }
  for (std::size_t rank = 0; rank < before.size(); ++rank)
    if (before[rank] >= 0) known.push_back(best[rank]);
  if (known.empty()) return {};
  std::ranges::sort(known);
  double const usual = known[known.size() / 2];
  auto const is_slow = [&](double rate) { return rate < 0.5 * usual; };
  std::vector<slow_rank> out;
  for (std::size_t rank = 0; rank < before.size(); ++rank) {
    if (before[rank] < 0) continue;
    auto const self = static_cast<int>(rank);
    if (is_slow(best[rank]))
      out.push_back({self, -1, best[rank], usual});
    else if (is_slow(arriving[rank]) && !is_slow(best[static_cast<std::size_t>(before[rank])]))
      out.push_back({self, before[rank], arriving[rank], usual});
  }
  return out;
}

/// The sizes to measure a rate with: from small to `most`, and only as long as the last took
/// little, so that a slow network costs no more time than a fast one.
class growing_size {
 public:
  growing_size(std::size_t most, double seconds, std::size_t least = std::size_t{16} << 10)
      : most_(most), seconds_(seconds), bytes_(std::min(most, least)) {}

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Whether there is a next size, which the last makes one expect to take no more than the
  /// seconds.
  [[nodiscard]] bool may_grow(double last_took) const {
    return bytes_ < most_ && last_took * factor <= seconds_;
  }
  /// Goes on to it.
  [[nodiscard]] bool grow(double last_took) {
    if (!may_grow(last_took)) return false;
    bytes_ = std::min(most_, bytes_ * static_cast<std::size_t>(factor));
    return true;
  }

 private:
  static constexpr double factor = 4;
  std::size_t most_;
  double seconds_;
  std::size_t bytes_;
};

/// The round, of two or three, in which `member` of a ring sends to the next: neighbours' differ.
[[nodiscard]] constexpr int ring_round(int member, int members) {
  return members % 2 == 1 && member == members - 1 ? 2 : member % 2;
}

namespace detail {

/// One message after the other between this rank and another, which asks for each.
template <class Device, class Comm>
class asked_messages {
 public:
  asked_messages(Device& device, Comm& comm, std::size_t most)
      : device_(device),
        comm_(comm),
        stream_(comm_options<Comm>(device)),
        data_(exchanged<std::uint8_t>(most)),
        asked_(exchanged<std::int64_t>(1)) {}

  /// Answers `peer` until it asks for no more.
  void answer(int peer) {
    for (;;) {
      std::int64_t bytes = 0;
      comm_.recv(stream_, asked_.span(), peer).wait();
      device_.download(std::span(&bytes, 1), asked_.span());
      if (bytes == 0) return;
      std::span<std::uint8_t const> const data =
          data_.span().first(static_cast<std::size_t>(bytes));
      comm_.send(stream_, data, peer).wait();
    }
  }

  /// Bytes per second from `peer`, by the largest message that takes little.
  [[nodiscard]] double rate_from(int peer, double seconds) {
    growing_size size(data_.size(), seconds);
    static_cast<void>(seconds_of(size.bytes(), peer));  // which may have to connect
    auto best = std::numeric_limits<double>::infinity();
    do {
      best = std::numeric_limits<double>::infinity();  // a busy core is not a slow network
      for (int tries = 0; tries < 3 && !size.may_grow(best); ++tries)
        best = std::min(best, seconds_of(size.bytes(), peer));
    } while (size.grow(best));
    ask(0, peer);
    return static_cast<double>(size.bytes()) / std::max(best, 1e-9);
  }

  void barrier() { comm_.barrier(stream_).wait(); }

 private:
  template <class T>
  [[nodiscard]] buffer<T> exchanged(std::size_t count) {
    auto memory = allocate_exchanged<T>(device_, count);
    registered_.push_back(register_memory(comm_, memory));
    return memory;
  }

  void ask(std::size_t bytes, int peer) {
    auto const number = static_cast<std::int64_t>(bytes);
    device_.upload(asked_.span(), std::span(&number, 1));
    std::span<std::int64_t const> const asked = asked_.span();
    comm_.send(stream_, asked, peer).wait();
  }

  [[nodiscard]] double seconds_of(std::size_t bytes, int peer) {
    auto const begin = std::chrono::steady_clock::now();
    ask(bytes, peer);
    comm_.recv(stream_, data_.span().first(bytes), peer).wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  Device& device_;
  Comm& comm_;
  comm_stream<Device, Comm> stream_;
  std::vector<registered_memory> registered_;
  buffer<std::uint8_t> data_;
  buffer<std::int64_t> asked_;
};

}  // namespace detail

/// Bytes per second that reach this rank from the one before it in `ring`, in messages of at most
/// `most` bytes that take about `seconds` or less; 0 of a ring of one. Collective.
template <class Device, class Comm>
[[nodiscard]] double arriving_rate(Device& device, Comm& ring, std::size_t most, double seconds) {
  int const n = ring.size();
  int const self = ring.rank();
  if (n == 1) return 0;
  connect_neighbours(ring);
  int const before = (self + n - 1) % n;
  double rate = 0;
  detail::asked_messages<Device, Comm> messages(device, ring, most);
  for (int round = 0; round < (n % 2 == 1 ? 3 : 2); ++round) {
    messages.barrier();  // who is done earlier would wait for one that is still in another round
    if (ring_round(self, n) == round) messages.answer((self + 1) % n);
    if (ring_round(before, n) == round) rate = messages.rate_from(before, seconds);
  }
  return rate;
}

}  // namespace parallel
