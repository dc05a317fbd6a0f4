// The laws of communicators: what every rank runs over a communicator of whatever make; `error` is
// thrown at the first wrong bit.
//
// Expected values come from a serial loop in rank order over the same deterministic inputs, so all
// backends and decorators are held to the same bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <parallel/comm/call_group.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/conformance/values.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/error.hpp>

namespace parallel::conformance {

/// Sums, maxima and minima in rank order, in place and not; inputs stay as they are.
template <class T, class C>
void check_reductions(C& comm, typename C::stream_type& s, std::size_t count, reduction how) {
  int const me = comm.rank();
  auto const ranks = static_cast<std::size_t>(comm.size());
  auto x = values<T>(me, count);
  comm.all_reduce(s, std::span<T>(x), how).wait();
  same(x, combined<T>(comm.size(), count, how), "all_reduce", me);

  auto whole = values<T>(me, count * ranks);
  auto const shard = combined<T>(comm.size(), count, how, static_cast<std::size_t>(me) * count);
  std::vector<T> out(count);
  comm.reduce_scatter(s, std::span<T>(out), whole, how).wait();
  same(out, shard, "reduce_scatter", me);
  same(whole, values<T>(me, count * ranks), "reduce_scatter's input", me);
  auto const own = std::span<T>(whole).subspan(static_cast<std::size_t>(me) * count, count);
  comm.reduce_scatter(s, own, whole, how).wait();
  same(std::vector<T>(own.begin(), own.end()), shard, "reduce_scatter in place", me);
}

/// Numbers in bf16 are summed to floats in rank order, which are not rounded.
template <class C>
void check_wide_sums(C& comm, std::size_t count) {
  typename C::stream_type s;
  int const me = comm.rank();
  auto const own = static_cast<std::size_t>(me) * count;
  auto const whole = values<bf16>(me, count * static_cast<std::size_t>(comm.size()));
  std::vector<float> expected(count), out(count);
  for (int r = 0; r < comm.size(); ++r)
    for (std::size_t i = 0; i < count; ++i) {
      auto const x = static_cast<float>(value<bf16>(r, own + i));
      expected[i] = r == 0 ? x : expected[i] + x;
    }
  comm.reduce_scatter(s, std::span(out), std::span<bf16 const>(whole)).wait();
  same(out, expected, "reduce_scatter of bf16 to f32", me);
}

/// Collectives of one call are those of many, and nothing happens before its end.
template <class C>
void check_groups(C& comm, std::size_t count) {
  typename C::stream_type s;
  int const me = comm.rank();
  auto const ranks = static_cast<std::size_t>(comm.size());
  auto const own = static_cast<std::size_t>(me) * count;
  auto sum = values<float>(me, count);
  auto const whole = values<double>(me, count * ranks);
  auto const shard = values<std::int32_t>(me, count);
  std::vector<double> scattered(count);
  std::vector<std::int32_t> gathered(count * ranks), expected;
  for (int r = 0; r < comm.size(); ++r)
    for (auto const v : values<std::int32_t>(r, count)) expected.push_back(v);
  call_group calls(comm);
  calls.all_reduce(s, std::span(sum), reduction::sum).wait();
  calls.reduce_scatter(s, std::span(scattered), whole, reduction::max).wait();
  calls.all_gather(s, std::span(gathered), shard).wait();
  same(sum, values<float>(me, count), "before the end of a group", me);
  auto done = calls.end(s);
  auto more = values<bf16>(me, count);
  comm.all_reduce(s, std::span(more), reduction::sum).wait();
  done.wait();
  same(sum, combined<float>(comm.size(), count, reduction::sum), "all_reduce of a group", me);
  same(scattered, combined<double>(comm.size(), count, reduction::max, own),
       "reduce_scatter of a group", me);
  same(gathered, expected, "all_gather of a group", me);
  same(more, combined<bf16>(comm.size(), count, reduction::sum), "all_reduce after a group", me);
  require(calls.end(s).ready(), "a group of nothing is done");
}

/// What is gathered, exchanged, broadcast and sent arrives where it belongs, messages in order.
template <class T, class C>
void check_copies(C& comm, typename C::stream_type& s, std::size_t count) {
  int const me = comm.rank();
  auto const ranks = static_cast<std::size_t>(comm.size());
  std::vector<T> expected;
  for (int r = 0; r < comm.size(); ++r)
    for (T const v : values<T>(r, count)) expected.push_back(v);
  auto const shard = values<T>(me, count);
  std::vector<T> out(count * ranks);
  comm.all_gather(s, std::span<T>(out), shard).wait();
  same(out, expected, "all_gather", me);
  std::vector<T> in_place(count * ranks);
  auto const own = std::span<T>(in_place).subspan(static_cast<std::size_t>(me) * count, count);
  std::copy(shard.begin(), shard.end(), own.begin());
  comm.all_gather(s, std::span<T>(in_place), own).wait();
  same(in_place, expected, "all_gather in place", me);

  // Rank r's i-th shard out is rank i's r-th shard in.
  auto const rows = values<T>(me, count * ranks);
  std::vector<T> columns(count * ranks);
  std::vector<T> transposed;
  for (int r = 0; r < comm.size(); ++r)
    for (T const v : values<T>(r, count, static_cast<std::size_t>(me) * count))
      transposed.push_back(v);
  comm.all_to_all(s, std::span<T>(columns), rows).wait();
  same(columns, transposed, "all_to_all", me);
  same(rows, values<T>(me, count * ranks), "all_to_all's input", me);

  for (int root = 0; root < comm.size(); ++root) {
    auto y = values<T>(me, count, 17);
    comm.broadcast(s, std::span<T>(y), root).wait();
    same(y, values<T>(root, count, 17), "broadcast", me);
  }
  // Around the ring, both directions in flight at once on two streams; two messages in order.
  if (comm.size() == 1) return;
  typename C::stream_type other;
  int const next = (me + 1) % comm.size();
  int const previous = (me + comm.size() - 1) % comm.size();
  auto const first = values<T>(me, count);
  auto const second = values<T>(me, count, 99);
  std::vector<T> got_first(count);
  std::vector<T> got_second(count);
  auto a = comm.send(s, std::span<T const>(first), next, 3);
  auto b = comm.send(s, std::span<T const>(second), next, 3);
  auto c = comm.recv(other, std::span<T>(got_first), previous, 3);
  auto d = comm.recv(other, std::span<T>(got_second), previous, 3);
  d.wait();
  c.wait();
  a.wait();
  b.wait();
  same(got_first, values<T>(previous, count), "first message", me);
  same(got_second, values<T>(previous, count, 99), "second message", me);
}

/// Streams wait for requests, requests keep buffers, and many calls may be in flight.
template <class C>
void check_order(C& comm) {
  typename C::stream_type compute;
  typename C::stream_type communication;
  int const me = comm.rank();
  constexpr std::size_t count = 3001;
  auto const x = std::make_shared<std::vector<float>>(count);
  std::vector<typename C::request_type> pending;
  std::vector<std::vector<float>> results(20, std::vector<float>(count));
  for (std::size_t k = 0; k < results.size(); ++k) {
    compute.enqueue([x, k, me] {
      auto const fresh = values<float>(me, count, k);
      std::copy(fresh.begin(), fresh.end(), x->begin());  // the memory stays where it is
    });
    communication.wait(compute.record());
    auto reduced =
        comm.all_reduce(communication, std::span<float>(x->data(), count), reduction::sum);
    reduced.keep(x).wait_on(compute);
    compute.enqueue([x, &out = results[k]] { out = *x; });
    pending.push_back(std::move(reduced));
  }
  compute.synchronize();
  for (std::size_t k = 0; k < results.size(); ++k)
    same(results[k], combined<float>(comm.size(), count, reduction::sum, k), "step", me);
  std::weak_ptr<std::vector<float>> kept;
  {
    auto const mine = std::make_shared<std::vector<float>>(values<float>(me, count));
    kept = mine;
    auto const data = std::span<float>(*mine);
    pending.push_back(comm.all_reduce(communication, data, reduction::sum).keep(mine));
  }
  for (auto& one : pending) one.wait();
  require(kept.expired(), "the buffer outlived its operation");
}

/// Everything, for counts that divide evenly and that do not; `more` is one large count.
template <class T, class C>
void check_type(C& comm, std::size_t more) {
  typename C::stream_type s;
  auto const ranks = static_cast<std::size_t>(comm.size());
  for (std::size_t const count : {std::size_t{0}, std::size_t{1}, ranks - 1, ranks, std::size_t{13},
                                  std::size_t{1031}, more}) {
    for (auto const how : {reduction::sum, reduction::max, reduction::min})
      check_reductions<T>(comm, s, count, how);
    check_copies<T>(comm, s, count);
  }
  comm.barrier(s).wait();
}

/// Parts by color are communicators like others; calls of the whole and of parts of parts may be in
/// flight together.
template <class C>
void check_parts(C& comm) {
  int const me = comm.rank();
  C part = comm.split(me % 2);
  require(part.rank() == me / 2 && part.size() == (comm.size() + 1 - me % 2) / 2,
          "the part of rank ", me, " is wrong");
  require(part.world_rank(part.rank()) == comm.world_rank(me), "world_rank of rank ", me);
  check_type<float>(part, 131);
  check_order(part);
  C alone = part.split(part.rank());
  require(alone.size() == 1 && alone.rank() == 0, "a part of one rank");
  C same_again = part.split(7);
  C known = comm.split(coloring([](int rank) { return rank % 2; }), "known");
  require(known.rank() == part.rank() && known.size() == part.size() && known.name() == "known",
          "a part whose colors all ranks know");
  typename C::stream_type s, other, third, fourth;
  std::vector<std::uint64_t> x(701, 1), y(33, 1), z(5, 1), k(17, 1);
  auto a = comm.all_reduce(s, std::span(x), reduction::sum);
  auto b = part.all_reduce(other, std::span(y), reduction::sum);
  auto c = same_again.all_reduce(third, std::span(z), reduction::sum);
  auto d = known.all_reduce(fourth, std::span(k), reduction::sum);
  d.wait();
  c.wait();
  b.wait();
  a.wait();
  auto const are = [](auto const& numbers, int value) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](auto n) { return n == static_cast<std::uint64_t>(value); });
  };
  require(are(x, comm.size()) && are(y, part.size()) && are(z, part.size()) && are(k, part.size()),
          "sums over a whole and its parts");
}

/// All of it, in every element type, of the whole and its parts; `more` is one large count. Every
/// rank calls it.
template <class C>
void check_all(C& comm, std::size_t more = 5003) {
  static_assert(has_collectives<C, bf16>);
  check_type<std::uint64_t>(comm, more);
  check_type<float>(comm, more);
  check_type<bf16>(comm, more);
  check_type<double>(comm, 131);
  check_type<std::int32_t>(comm, 131);
  check_type<std::int64_t>(comm, 131);
  check_type<std::uint8_t>(comm, 131);
  for (std::size_t const count : {std::size_t{0}, std::size_t{1}, more}) {
    check_wide_sums(comm, count);
    check_groups(comm, count);
  }
  check_order(comm);
  check_parts(comm);
}

}  // namespace parallel::conformance
