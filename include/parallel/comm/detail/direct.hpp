// direct: collectives built from messages, for backends that have only messages.
//
// Reductions are direct exchanges: every rank receives its chunk of the data from every other rank
// and combines in rank order, so the bits are those of the other backends. The volume per rank is
// that of a ring: (n-1)/n of the data for reduce_scatter and all_gather each, twice that for
// all_reduce. Data goes in pieces, of which several are in flight, and an all_reduce sends the sum
// of one piece while the next ones arrive, so that the link is not idle while ranks combine.
// Staging memory is 8 (n-1) pieces. Broadcast is a binomial tree, barrier a dissemination (log2 n
// rounds).
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/operation.hpp>

namespace parallel::detail {

/// Sends and receives that are in flight together; `wait` blocks until all are done.
template <class B>
concept message_batch = requires(B b, void const* from, void* to, std::size_t bytes, int peer) {
  b.send(from, bytes, peer);
  b.recv(to, bytes, peer);
  b.wait();
};

/// Messages between the ranks of one operation; the messages of a pair arrive in the order sent.
template <class T>
concept transport = requires(T t) {
  { t.rank() } -> std::convertible_to<int>;
  { t.size() } -> std::convertible_to<int>;
  { t.piece_bytes() } -> std::convertible_to<std::size_t>;
  { t.begin() } -> message_batch;
};

/// The number of pieces of one operation in flight. A rank's messages go out in the order in which
/// they were posted. With few pieces in flight sums are sent soon: a rank that is ahead waits for
/// the others early, and all ranks end an operation together. With many, it waits at the end, while
/// its link has nothing to send, and is late in the next operation (measured on two ranks, 12 x 4
/// MiB: 32 pieces lose 14 % of a link of 2.8 Gbit/s and 18 % of one of 10, 8 pieces 5 % and 8 %).
inline constexpr std::size_t pieces_in_flight = 8;

// Addresses in an operation's memory, by element index.
struct operation_memory {
  operation const& op;
  [[nodiscard]] std::byte const* in(std::size_t first) const {
    return static_cast<std::byte const*>(op.in) + first * size_of(op.type);
  }
  [[nodiscard]] std::byte* out(std::size_t first) const {
    return static_cast<std::byte*>(op.out) + first * size_of(op.type);
  }
};

/// Sends as part of `op`, and counts the bytes.
template <message_batch Batch>
void send(Batch& batch, operation const& op, void const* from, std::size_t bytes, int peer) {
  batch.send(from, bytes, peer);
  if (op.sent != nullptr) *op.sent += bytes;
}

// Combines rank_chunks[rank] of every rank's input into `result`, which is rank_chunks[rank] of
// `op.out`, piece by piece; with `sends_results` the result also goes to the other ranks. `op.in`
// may be the same memory as `result`. Every rank posts the pieces in the same order, so that the
// messages of a pair match.
template <transport Transport>
void exchange_and_combine(Transport& t, operation const& op, std::vector<chunk> const& rank_chunks,
                          std::byte* result, bool sends_results) {
  int const own_rank = t.rank();
  int const ranks = t.size();
  operation_memory const memory{op};
  std::size_t const width = size_of(op.type);
  std::size_t longest = 0;
  for (chunk const& chunk_of_rank : rank_chunks) longest = std::max(longest, chunk_of_rank.count);
  std::size_t const piece = std::min(longest, std::max<std::size_t>(1, t.piece_bytes() / width));
  if (longest == 0) return;
  std::size_t const pieces = (longest + piece - 1) / piece;
  std::size_t const depth = std::min(pieces, pieces_in_flight);

  auto const rank_chunk = [&](int rank) { return rank_chunks[static_cast<std::size_t>(rank)]; };
  auto const length = [&](int rank, std::size_t k) {
    std::size_t const first = std::min(rank_chunk(rank).count, k * piece);
    return std::min(piece, rank_chunk(rank).count - first);
  };
  auto const slots = static_cast<std::size_t>(ranks);
  auto const staging = std::make_unique_for_overwrite<std::byte[]>(depth * slots * piece * width);
  auto const slot = [&](int rank, std::size_t k) {
    return staging.get() + ((k % depth) * slots + static_cast<std::size_t>(rank)) * piece * width;
  };
  auto const for_each_pair = [&](auto const& f) {
    for (int step = 1; step < ranks; ++step)  // different partners at the same time
      f((own_rank + step) % ranks, (own_rank + ranks - step) % ranks);
  };
  std::vector<decltype(t.begin())> in_flight;  // piece k is at index k % depth
  auto const post = [&](std::size_t k) {
    auto batch = t.begin();
    for_each_pair([&](int to, int from) {
      if (length(own_rank, k) != 0) batch.recv(slot(from, k), length(own_rank, k) * width, from);
      if (length(to, k) != 0)
        send(batch, op, memory.in(rank_chunk(to).first + k * piece), length(to, k) * width, to);
    });
    return batch;
  };
  auto results = t.begin();
  auto const send_results = [&](std::size_t k) {  // the memory that is received into has been sent
    for_each_pair([&](int to, int from) {
      if (length(from, k) != 0)
        results.recv(memory.out(rank_chunk(from).first + k * piece), length(from, k) * width, from);
      if (length(own_rank, k) != 0)
        send(results, op, result + k * piece * width, length(own_rank, k) * width, to);
    });
  };

  for (std::size_t k = 0; k < depth; ++k) in_flight.push_back(post(k));
  std::vector<void const*> sources(slots);
  for (std::size_t k = 0; k < pieces; ++k) {
    in_flight[k % depth].wait();
    if (std::size_t const n = length(own_rank, k); n != 0) {
      for (int r = 0; r < ranks; ++r)
        sources[static_cast<std::size_t>(r)] =
            r == own_rank ? memory.in(rank_chunk(own_rank).first + k * piece) : slot(r, k);
      void* const target = result + k * piece * size_of(op.out_type());
      combine(op.type, op.combine, {&target, 1}, sources, n);
    }
    if (sends_results) send_results(k);
    if (k + depth < pieces) in_flight[k % depth] = post(k + depth);
  }
  results.wait();
}

// Fills the shard of every other rank in `op.out` with that rank's data for this one. Rank `to`
// receives `op.count` elements from `begin(to)` on; all shards have equal size.
template <transport Transport, class Begin>
void swap_shards(Transport& t, operation const& op, Begin begin) {
  operation_memory const memory{op};
  std::size_t const width = size_of(op.type);
  std::size_t const piece = std::max<std::size_t>(1, t.piece_bytes() / width);
  std::size_t const pieces = (op.count + piece - 1) / piece;
  std::size_t const depth = std::min(pieces, pieces_in_flight);
  std::vector<decltype(t.begin())> in_flight;  // piece k is at index k % depth
  auto const post = [&](std::size_t k) {
    std::size_t const first = k * piece;
    std::size_t const bytes = std::min(piece, op.count - first) * width;
    auto batch = t.begin();
    for (int step = 1; step < t.size(); ++step) {  // different partners at the same time
      int const to = (t.rank() + step) % t.size();
      int const from = (t.rank() + t.size() - step) % t.size();
      batch.recv(memory.out(static_cast<std::size_t>(from) * op.count + first), bytes, from);
      send(batch, op, begin(to) + first * width, bytes, to);
    }
    return batch;
  };
  for (std::size_t k = 0; k < depth; ++k) in_flight.push_back(post(k));
  for (std::size_t k = 0; k < pieces; ++k) {
    in_flight[k % depth].wait();
    if (k + depth < pieces) in_flight[k % depth] = post(k + depth);
  }
}

template <transport Transport>
void broadcast_tree(Transport& t, operation const& op) {
  if (op.out != op.in && t.rank() == op.peer && op.bytes() != 0)
    std::memcpy(op.out, op.in, op.bytes());
  if (op.count == 0) return;
  int const ranks = t.size();
  int const tree_position = (t.rank() + ranks - op.peer) % ranks;
  int bit = 1;
  while (bit < ranks && (tree_position & bit) == 0) bit *= 2;
  if (tree_position != 0) {
    auto batch = t.begin();
    batch.recv(op.out, op.bytes(), (tree_position - bit + op.peer) % ranks);
    batch.wait();
  }
  auto batch = t.begin();
  for (bit /= 2; bit >= 1; bit /= 2)
    if (tree_position + bit < ranks)
      send(batch, op, op.out, op.bytes(), (tree_position + bit + op.peer) % ranks);
  batch.wait();
}

template <transport Transport>
void disseminate(Transport& t) {
  for (int distance = 1; distance < t.size(); distance *= 2) {
    auto batch = t.begin();
    batch.recv(nullptr, 0, (t.rank() + t.size() - distance) % t.size());
    batch.send(nullptr, 0, (t.rank() + distance) % t.size());
    batch.wait();
  }
}

/// Runs `op` with messages; blocks until this rank's memory is no longer used.
template <transport Transport>
void run_direct(Transport& t, operation const& op) {
  auto const ranks = static_cast<std::size_t>(t.size());
  auto const own_rank = static_cast<std::size_t>(t.rank());
  std::vector<chunk> rank_chunks;
  for (std::size_t r = 0; r < ranks; ++r)
    rank_chunks.push_back(op.kind == operation_kind::all_reduce
                              ? chunk_of(op.count, static_cast<int>(r), t.size())
                              : chunk{r * op.count, op.count});
  operation_memory const memory{op};
  auto const own_shard = [&](int) { return memory.out(rank_chunks[own_rank].first); };
  auto const fill_own_shard = [&](void const* from) {
    if (own_shard(0) != from && op.bytes() != 0) std::memcpy(own_shard(0), from, op.bytes());
  };
  switch (op.kind) {
    case operation_kind::all_reduce:
      return exchange_and_combine(t, op, rank_chunks, memory.out(rank_chunks[own_rank].first),
                                  true);
    case operation_kind::reduce_scatter:
      return exchange_and_combine(t, op, rank_chunks, memory.out(0), false);
    case operation_kind::all_gather: fill_own_shard(op.in); return swap_shards(t, op, own_shard);
    case operation_kind::all_to_all:
      fill_own_shard(memory.in(rank_chunks[own_rank].first));
      return swap_shards(t, op, [&](int to) {
        return memory.in(rank_chunks[static_cast<std::size_t>(to)].first);
      });
    case operation_kind::broadcast: return broadcast_tree(t, op);
    case operation_kind::barrier: return disseminate(t);
    case operation_kind::split:
    case operation_kind::group:
    case operation_kind::agreement: return;
    case operation_kind::send: {
      auto batch = t.begin();
      send(batch, op, op.in, op.bytes(), op.peer);
      return batch.wait();
    }
    case operation_kind::recv: {
      auto batch = t.begin();
      batch.recv(op.out, op.bytes(), op.peer);
      return batch.wait();
    }
  }
}

}  // namespace parallel::detail
