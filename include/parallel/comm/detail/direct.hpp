// direct: collectives over messages, for backends that have nothing better.
//
// Reduction is by direct exchange: every rank receives its part of the data from every other rank
// and combines in rank order, so the bits are those of the other backends. Volume per rank is that
// of a ring: (n-1)/n of the data for reduce_scatter and all_gather each, twice that for all_reduce.
// Work goes in pieces, of which many are under way, and an all_reduce sends the sum of one while
// the next arrive: the link is never idle while ranks see to what has come. Staging memory is
// 8 (n-1) pieces. Broadcast is a binomial tree, barrier a dissemination (log2 n rounds).
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/operation.hpp>

namespace parallel::detail {

/// Sends and receives that are under way together; `wait` blocks until all are done.
template <class B>
concept message_batch = requires(B b, void const* from, void* to, std::size_t bytes, int peer) {
  b.send(from, bytes, peer);
  b.recv(to, bytes, peer);
  b.wait();
};

/// Messages between the ranks of one operation; those of a pair arrive in the order sent.
template <class T>
concept transport = requires(T t) {
  { t.rank() } -> std::convertible_to<int>;
  { t.size() } -> std::convertible_to<int>;
  { t.piece_bytes() } -> std::convertible_to<std::size_t>;
  { t.begin() } -> message_batch;
};

/// Of an operation at a time. What a rank has posted goes out in that order: with few pieces under
/// way sums are sent soon, so that a rank that is ahead waits for the others early, and all end an
/// operation together. With many, it waits at the end, while its link has nothing to carry, and is
/// behind in the next one (measured on two ranks, 12 x 4 MiB: 32 pieces lose 14 % of a link of
/// 2.8 Gbit/s and 18 % of one of 10, 8 pieces 5 % and 8 %).
inline constexpr std::size_t pieces_under_way = 8;

// Byte addresses into an operation's memory, in elements.
struct place {
  operation const& op;
  [[nodiscard]] std::byte const* in(std::size_t first) const {
    return static_cast<std::byte const*>(op.in) + first * size_of(op.type);
  }
  [[nodiscard]] std::byte* out(std::size_t first) const {
    return static_cast<std::byte*>(op.out) + first * size_of(op.type);
  }
};

/// Sends on behalf of `op`, and counts it.
template <message_batch Batch>
void send(Batch& batch, operation const& op, void const* from, std::size_t bytes, int peer) {
  batch.send(from, bytes, peer);
  if (op.sent != nullptr) *op.sent += bytes;
}

// Combines parts[rank] of everybody's input into `result`, which is parts[rank] of `op.out` and
// goes to the others, piece by piece, if all are to have it; in may be where result is. Pieces are
// posted by every rank in the same order, in which a pair's messages match.
template <transport Transport>
void exchange_and_combine(Transport& t, operation const& op, std::vector<chunk> const& parts,
                          std::byte* result, bool for_all) {
  int const me = t.rank();
  int const ranks = t.size();
  place const at{op};
  std::size_t const width = size_of(op.type);
  std::size_t longest = 0;
  for (chunk const& part : parts) longest = std::max(longest, part.count);
  std::size_t const piece = std::min(longest, std::max<std::size_t>(1, t.piece_bytes() / width));
  if (longest == 0) return;
  std::size_t const pieces = (longest + piece - 1) / piece;
  std::size_t const ahead = std::min(pieces, pieces_under_way);

  auto const part_of = [&](int rank) { return parts[static_cast<std::size_t>(rank)]; };
  auto const length = [&](int rank, std::size_t k) {
    std::size_t const first = std::min(part_of(rank).count, k * piece);
    return std::min(piece, part_of(rank).count - first);
  };
  auto const slots = static_cast<std::size_t>(ranks);
  auto const memory = std::make_unique_for_overwrite<std::byte[]>(ahead * slots * piece * width);
  auto const slot = [&](int rank, std::size_t k) {
    return memory.get() + ((k % ahead) * slots + static_cast<std::size_t>(rank)) * piece * width;
  };
  auto const for_each_pair = [&](auto const& f) {
    for (int step = 1; step < ranks; ++step)  // different partners at the same time
      f((me + step) % ranks, (me + ranks - step) % ranks);
  };
  std::vector<decltype(t.begin())> under_way;  // piece k at k % ahead
  auto const post = [&](std::size_t k) {
    auto batch = t.begin();
    for_each_pair([&](int to, int from) {
      if (length(me, k) != 0) batch.recv(slot(from, k), length(me, k) * width, from);
      if (length(to, k) != 0)
        send(batch, op, at.in(part_of(to).first + k * piece), length(to, k) * width, to);
    });
    return batch;
  };
  auto shared = t.begin();
  auto const share = [&](std::size_t k) {  // of what is received into, all was sent before
    for_each_pair([&](int to, int from) {
      if (length(from, k) != 0)
        shared.recv(at.out(part_of(from).first + k * piece), length(from, k) * width, from);
      if (length(me, k) != 0)
        send(shared, op, result + k * piece * width, length(me, k) * width, to);
    });
  };

  for (std::size_t k = 0; k < ahead; ++k) under_way.push_back(post(k));
  std::vector<void const*> sources(slots);
  for (std::size_t k = 0; k < pieces; ++k) {
    under_way[k % ahead].wait();
    if (std::size_t const n = length(me, k); n != 0) {
      for (int r = 0; r < ranks; ++r)
        sources[static_cast<std::size_t>(r)] =
            r == me ? at.in(part_of(me).first + k * piece) : slot(r, k);
      void* const to = result + k * piece * size_of(op.out_type());
      combine(op.type, op.combine, {&to, 1}, sources, n);
    }
    if (for_all) share(k);
    if (k + ahead < pieces) under_way[k % ahead] = post(k + ahead);
  }
  shared.wait();
}

// Fills the part of `op.out` of every other rank with what that rank has for this one: rank `to` is
// sent elements from `begin(to)` on, as many as this rank's part has; all parts are equally long.
template <transport Transport, class Begin>
void swap_parts(Transport& t, operation const& op, Begin begin) {
  place const at{op};
  std::size_t const width = size_of(op.type);
  std::size_t const piece = std::max<std::size_t>(1, t.piece_bytes() / width);
  std::size_t const pieces = (op.count + piece - 1) / piece;
  std::size_t const ahead = std::min(pieces, pieces_under_way);
  std::vector<decltype(t.begin())> under_way;  // piece k at k % ahead
  auto const post = [&](std::size_t k) {
    std::size_t const first = k * piece;
    std::size_t const bytes = std::min(piece, op.count - first) * width;
    auto batch = t.begin();
    for (int step = 1; step < t.size(); ++step) {  // different partners at the same time
      int const to = (t.rank() + step) % t.size();
      int const from = (t.rank() + t.size() - step) % t.size();
      batch.recv(at.out(static_cast<std::size_t>(from) * op.count + first), bytes, from);
      send(batch, op, begin(to) + first * width, bytes, to);
    }
    return batch;
  };
  for (std::size_t k = 0; k < ahead; ++k) under_way.push_back(post(k));
  for (std::size_t k = 0; k < pieces; ++k) {
    under_way[k % ahead].wait();
    if (k + ahead < pieces) under_way[k % ahead] = post(k + ahead);
  }
}

template <transport Transport>
void broadcast_tree(Transport& t, operation const& op) {
  if (op.out != op.in && t.rank() == op.peer && op.bytes() != 0)
    std::memcpy(op.out, op.in, op.bytes());
  if (op.count == 0) return;
  int const ranks = t.size();
  int const place_in_tree = (t.rank() + ranks - op.peer) % ranks;
  int bit = 1;
  while (bit < ranks && (place_in_tree & bit) == 0) bit *= 2;
  if (place_in_tree != 0) {
    auto batch = t.begin();
    batch.recv(op.out, op.bytes(), (place_in_tree - bit + op.peer) % ranks);
    batch.wait();
  }
  auto batch = t.begin();
  for (bit /= 2; bit >= 1; bit /= 2)
    if (place_in_tree + bit < ranks)
      send(batch, op, op.out, op.bytes(), (place_in_tree + bit + op.peer) % ranks);
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

/// Runs `op` over messages; blocks until this rank is done with its memory.
template <transport Transport>
void run_direct(Transport& t, operation const& op) {
  auto const ranks = static_cast<std::size_t>(t.size());
  auto const me = static_cast<std::size_t>(t.rank());
  std::vector<chunk> parts;
  for (std::size_t r = 0; r < ranks; ++r)
    parts.push_back(op.kind == operation_kind::all_reduce
                        ? chunk_of(op.count, static_cast<int>(r), t.size())
                        : chunk{r * op.count, op.count});
  place const at{op};
  auto const own_part = [&](int) { return at.out(parts[me].first); };
  auto const fill_own_part = [&](void const* from) {
    if (own_part(0) != from && op.bytes() != 0) std::memcpy(own_part(0), from, op.bytes());
  };
  switch (op.kind) {
    case operation_kind::all_reduce:
      return exchange_and_combine(t, op, parts, at.out(parts[me].first), true);
    case operation_kind::reduce_scatter:
      return exchange_and_combine(t, op, parts, at.out(0), false);
    case operation_kind::all_gather: fill_own_part(op.in); return swap_parts(t, op, own_part);
    case operation_kind::all_to_all:
      fill_own_part(at.in(parts[me].first));
      return swap_parts(t, op,
                        [&](int to) { return at.in(parts[static_cast<std::size_t>(to)].first); });
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
