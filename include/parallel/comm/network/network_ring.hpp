// network_ring: measures how fast every rank receives from the rank of the same local rank on the
// previous machine, so that a slow machine, or a slow direction of a link, can be named.
//
// The ranks of one local rank, one on each machine, form a ring. Messages go in rounds in which a
// rank exchanges with one other rank only, so that a slow pair does not slow another one; all pairs
// of a round are measured at once, and the time does not grow with the number of machines.
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
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/registered_memory.hpp>
#include <parallel/device/buffer.hpp>

namespace parallel {

/// The local rank of each rank: its number among the ranks of its machine.
[[nodiscard]] inline std::vector<int> local_ranks(std::vector<std::string> const& machines) {
  std::map<std::string, int> count;
  std::vector<int> out;
  for (auto const& machine : machines) out.push_back(count[machine]++);
  return out;
}

/// For each rank the rank of the same local rank on the previous machine, cyclically; -1 where no
/// other machine has that local rank.
[[nodiscard]] inline std::vector<int> ranks_before(std::vector<std::string> const& machines) {
  auto const numbers = local_ranks(machines);
  std::map<int, std::vector<int>> rings;
  for (std::size_t rank = 0; rank < numbers.size(); ++rank)
    rings[numbers[rank]].push_back(static_cast<int>(rank));
  std::vector<int> out(machines.size(), -1);
  for (auto const& ring : rings)
    for (std::size_t i = 0, n = ring.second.size(); n > 1 && i < n; ++i)
      out[static_cast<std::size_t>(ring.second[i])] = ring.second[(i + n - 1) % n];
  return out;
}

/// A rank whose rate is less than half of the median.
struct slow_rank {
  int rank = 0;
  int from = -1;    ///< the rank that it receives slowly from; -1: it is slow in both directions
  double rate = 0;  ///< bytes per second
  double median_rate = 0;  ///< the median of all ranks, bytes per second

  [[nodiscard]] bool operator==(slow_rank const&) const = default;
};

/// The slow ranks, where rank r receives `arriving[r]` bytes per second from `predecessors[r]`. A
/// rank's rate is the better of sending and receiving: a slow rank slows one message of each
/// neighbour, and both of its own.
[[nodiscard]] inline std::vector<slow_rank> slow_ranks(std::vector<int> const& predecessors,
                                                       std::vector<double> const& arriving) {
  std::vector<double> best(predecessors.size());
  std::vector<double> known;
  for (std::size_t rank = 0; rank < predecessors.size(); ++rank) {
    if (predecessors[rank] < 0) continue;
    for (auto const end : {rank, static_cast<std::size_t>(predecessors[rank])})
      best[end] = std::max(best[end], arriving[rank]);
  }
  for (std::size_t rank = 0; rank < predecessors.size(); ++rank)
    if (predecessors[rank] >= 0) known.push_back(best[rank]);
  if (known.empty()) return {};
  std::ranges::sort(known);
  double const usual = known[known.size() / 2];
  auto const is_slow = [&](double rate) { return rate < 0.5 * usual; };
  std::vector<slow_rank> slow;
  for (std::size_t rank = 0; rank < predecessors.size(); ++rank) {
    if (predecessors[rank] < 0) continue;
    auto const this_rank = static_cast<int>(rank);
    if (is_slow(best[rank]))
      slow.push_back({this_rank, -1, best[rank], usual});
    else if (is_slow(arriving[rank]) &&
             !is_slow(best[static_cast<std::size_t>(predecessors[rank])]))
      slow.push_back({this_rank, predecessors[rank], arriving[rank], usual});
  }
  return slow;
}

/// Message sizes for measuring a rate: they grow up to `max_bytes`, but only while the last message
/// took little time, so that a slow network costs no more time than a fast one.
class growing_size {
 public:
  growing_size(std::size_t max_bytes, double seconds, std::size_t min_bytes = std::size_t{16} << 10)
      : max_bytes_(max_bytes), seconds_(seconds), bytes_(std::min(max_bytes, min_bytes)) {}

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Whether there is a next size that is expected, from the time of the last one, to take no more
  /// than the seconds.
  [[nodiscard]] bool may_grow(double last_seconds) const {
    return bytes_ < max_bytes_ && last_seconds * factor <= seconds_;
  }
  /// Goes to the next size, if may_grow.
  [[nodiscard]] bool grow(double last_seconds) {
    if (!may_grow(last_seconds)) return false;
    bytes_ = std::min(max_bytes_, bytes_ * static_cast<std::size_t>(factor));
    return true;
  }

 private:
  static constexpr double factor = 4;
  std::size_t max_bytes_;
  double seconds_;
  std::size_t bytes_;
};

/// The round, 0 to 2, in which `member` of a ring sends to the next; neighbours have different
/// rounds.
[[nodiscard]] constexpr int ring_round(int member, int members) {
  return members % 2 == 1 && member == members - 1 ? 2 : member % 2;
}

namespace detail {

/// Messages from one rank to another, one at a time, each requested by the receiver.
template <class Device, class Comm>
class message_requests {
 public:
  message_requests(Device& device, Comm& comm, std::size_t max_bytes)
      : device_(device),
        comm_(comm),
        stream_(comm_options<Comm>(device)),
        data_(exchanged<std::uint8_t>(max_bytes)),
        request_(exchanged<std::int64_t>(1)) {}

  /// Sends to `peer` whatever it requests, until it requests 0 bytes.
  void answer(int peer) {
    for (;;) {
      std::int64_t bytes = 0;
      comm_.recv(stream_, request_.span(), peer).wait();
      device_.download(std::span(&bytes, 1), request_.span());
      if (bytes == 0) return;
      std::span<std::uint8_t const> const data =
          data_.span().first(static_cast<std::size_t>(bytes));
      comm_.send(stream_, data, peer).wait();
    }
  }

  /// Bytes per second from `peer`, measured with the largest message that takes little time.
  [[nodiscard]] double rate_from(int peer, double seconds) {
    growing_size size(data_.size(), seconds);
    static_cast<void>(seconds_of(size.bytes(), peer));  // the first message may have to connect
    auto best = std::numeric_limits<double>::infinity();
    do {
      best =
          std::numeric_limits<double>::infinity();  // the best of three tries: a core may be busy
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
    device_.upload(request_.span(), std::span(&number, 1));
    std::span<std::int64_t const> const request_count = request_.span();
    comm_.send(stream_, request_count, peer).wait();
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
  buffer<std::int64_t> request_;
};

}  // namespace detail

/// Bytes per second that this rank receives from its predecessor in `ring`, in messages of at most
/// `max_bytes` bytes that take about `seconds` or less; 0 in a ring of one rank. Collective.
template <class Device, class Comm>
[[nodiscard]] double arriving_rate(Device& device, Comm& ring, std::size_t max_bytes,
                                   double seconds) {
  int const n = ring.size();
  int const self = ring.rank();
  if (n == 1) return 0;
  connect_neighbours(ring);
  int const predecessors = (self + n - 1) % n;
  double rate = 0;
  detail::message_requests<Device, Comm> messages(device, ring, max_bytes);
  for (int round = 0; round < (n % 2 == 1 ? 3 : 2); ++round) {
    messages.barrier();  // otherwise a rank would wait for one that is still in an earlier round
    if (ring_round(self, n) == round) messages.answer((self + 1) % n);
    if (ring_round(predecessors, n) == round) rate = messages.rate_from(predecessors, seconds);
  }
  return rate;
}

}  // namespace parallel
