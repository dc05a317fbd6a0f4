// communicator: tests of the laws that every communicator must obey. All ranks call them; they
// throw `error` at the first wrong bit.
//
// The expected values come from a serial loop in rank order over deterministic inputs, so all
// backends and decorators must give the same bits.
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

/// Reductions combine in rank order, in place or not, and do not change other inputs.
template <class T, class C>
void check_reductions(C& comm, typename C::stream_type& s, std::size_t count,
                      reduction combine_by) {
  int const rank = comm.rank();
  auto const ranks = static_cast<std::size_t>(comm.size());
  auto x = values<T>(rank, count);
  comm.all_reduce(s, std::span<T>(x), combine_by).wait();
  require_equal(x, combined<T>(comm.size(), count, combine_by), "all_reduce", rank);

  auto whole = values<T>(rank, count * ranks);
  auto const shard =
      combined<T>(comm.size(), count, combine_by, static_cast<std::size_t>(rank) * count);
  std::vector<T> out(count);
  comm.reduce_scatter(s, std::span<T>(out), whole, combine_by).wait();
  require_equal(out, shard, "reduce_scatter", rank);
  require_equal(whole, values<T>(rank, count * ranks), "reduce_scatter's input", rank);
  auto const own_shard = std::span<T>(whole).subspan(static_cast<std::size_t>(rank) * count, count);
  comm.reduce_scatter(s, own_shard, whole, combine_by).wait();
  require_equal(std::vector<T>(own_shard.begin(), own_shard.end()), shard,
                "reduce_scatter in place", rank);
}

/// A wide sum of bf16 numbers is a sum of floats in rank order, not rounded to bf16.
template <class C>
void check_wide_sums(C& comm, std::size_t count) {
  typename C::stream_type s;
  int const rank = comm.rank();
  auto const own_begin = static_cast<std::size_t>(rank) * count;
  auto const whole = values<bf16>(rank, count * static_cast<std::size_t>(comm.size()));
  std::vector<float> expected(count), out(count);
  for (int r = 0; r < comm.size(); ++r)
    for (std::size_t i = 0; i < count; ++i) {
      auto const x = static_cast<float>(value<bf16>(r, own_begin + i));
      expected[i] = r == 0 ? x : expected[i] + x;
    }
  comm.reduce_scatter(s, std::span(out), std::span<bf16 const>(whole)).wait();
  require_equal(out, expected, "reduce_scatter of bf16 to f32", rank);
}

/// The collectives of a call_group give the same results as single calls, and do nothing before the
/// end of the group.
template <class C>
void check_groups(C& comm, std::size_t count) {
  typename C::stream_type s;
  int const rank = comm.rank();
  auto const ranks = static_cast<std::size_t>(comm.size());
  auto const own_begin = static_cast<std::size_t>(rank) * count;
  auto sum = values<float>(rank, count);
  auto const whole = values<double>(rank, count * ranks);
  auto const shard = values<std::int32_t>(rank, count);
  std::vector<double> scattered(count);
  std::vector<std::int32_t> gathered(count * ranks), expected;
  for (int r = 0; r < comm.size(); ++r)
    for (auto const v : values<std::int32_t>(r, count)) expected.push_back(v);
  call_group calls(comm);
  calls.all_reduce(s, std::span(sum), reduction::sum).wait();
  calls.reduce_scatter(s, std::span(scattered), whole, reduction::max).wait();
  calls.all_gather(s, std::span(gathered), shard).wait();
  require_equal(sum, values<float>(rank, count), "before the end of a group", rank);
  auto end_of_group = calls.end(s);
  auto later_sum = values<bf16>(rank, count);
  comm.all_reduce(s, std::span(later_sum), reduction::sum).wait();
  end_of_group.wait();
  require_equal(sum, combined<float>(comm.size(), count, reduction::sum), "all_reduce of a group",
                rank);
  require_equal(scattered, combined<double>(comm.size(), count, reduction::max, own_begin),
                "reduce_scatter of a group", rank);
  require_equal(gathered, expected, "all_gather of a group", rank);
  require_equal(later_sum, combined<bf16>(comm.size(), count, reduction::sum),
                "all_reduce after a group", rank);
  require(calls.end(s).ready(), "a group of nothing is done");
}

/// all_gather, all_to_all, broadcast and send move every element to the right position, and
/// messages arrive in order.
template <class T, class C>
void check_copies(C& comm, typename C::stream_type& s, std::size_t count) {
  int const rank = comm.rank();
  auto const ranks = static_cast<std::size_t>(comm.size());
  std::vector<T> expected;
  for (int r = 0; r < comm.size(); ++r)
    for (T const v : values<T>(r, count)) expected.push_back(v);
  auto const shard = values<T>(rank, count);
  std::vector<T> out(count * ranks);
  comm.all_gather(s, std::span<T>(out), shard).wait();
  require_equal(out, expected, "all_gather", rank);
  std::vector<T> in_place(count * ranks);
  auto const own_shard =
      std::span<T>(in_place).subspan(static_cast<std::size_t>(rank) * count, count);
  std::copy(shard.begin(), shard.end(), own_shard.begin());
  comm.all_gather(s, std::span<T>(in_place), own_shard).wait();
  require_equal(in_place, expected, "all_gather in place", rank);

  // shard i that rank r sends is shard r that rank i receives
  auto const rows = values<T>(rank, count * ranks);
  std::vector<T> columns(count * ranks);
  std::vector<T> transposed;
  for (int r = 0; r < comm.size(); ++r)
    for (T const v : values<T>(r, count, static_cast<std::size_t>(rank) * count))
      transposed.push_back(v);
  comm.all_to_all(s, std::span<T>(columns), rows).wait();
  require_equal(columns, transposed, "all_to_all", rank);
  require_equal(rows, values<T>(rank, count * ranks), "all_to_all's input", rank);

  for (int root = 0; root < comm.size(); ++root) {
    auto y = values<T>(rank, count, 17);
    comm.broadcast(s, std::span<T>(y), root).wait();
    require_equal(y, values<T>(root, count, 17), "broadcast", rank);
  }
  // sends to the next rank and receives from the previous one, at once on two streams
  if (comm.size() == 1) return;
  typename C::stream_type reverse;
  int const next = (rank + 1) % comm.size();
  int const previous = (rank + comm.size() - 1) % comm.size();
  auto const first = values<T>(rank, count);
  auto const second = values<T>(rank, count, 99);
  std::vector<T> received_first(count);
  std::vector<T> received_second(count);
  auto a = comm.send(s, std::span<T const>(first), next, 3);
  auto b = comm.send(s, std::span<T const>(second), next, 3);
  auto c = comm.recv(reverse, std::span<T>(received_first), previous, 3);
  auto d = comm.recv(reverse, std::span<T>(received_second), previous, 3);
  d.wait();
  c.wait();
  a.wait();
  b.wait();
  require_equal(received_first, values<T>(previous, count), "first message", rank);
  require_equal(received_second, values<T>(previous, count, 99), "second message", rank);
}

/// Streams wait for requests, requests keep buffers alive, and many calls may be in flight.
template <class C>
void check_order(C& comm) {
  typename C::stream_type compute;
  typename C::stream_type communication;
  int const rank = comm.rank();
  constexpr std::size_t count = 3001;
  auto const x = std::make_shared<std::vector<float>>(count);
  std::vector<typename C::request_type> pending;
  std::vector<std::vector<float>> results(20, std::vector<float>(count));
  for (std::size_t k = 0; k < results.size(); ++k) {
    compute.enqueue([x, k, rank] {
      auto const input = values<float>(rank, count, k);
      std::copy(input.begin(), input.end(), x->begin());  // the memory does not move
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
    require_equal(results[k], combined<float>(comm.size(), count, reduction::sum, k), "step", rank);
  std::weak_ptr<std::vector<float>> watched;
  {
    auto const owned = std::make_shared<std::vector<float>>(values<float>(rank, count));
    watched = owned;
    auto const data = std::span<float>(*owned);
    pending.push_back(comm.all_reduce(communication, data, reduction::sum).keep(owned));
  }
  for (auto& request : pending) request.wait();
  require(watched.expired(), "the buffer outlived its operation");
}

/// All operations on elements of type T, for counts that the number of ranks divides or not.
/// `large_count` is one more count.
template <class T, class C>
void check_type(C& comm, std::size_t large_count) {
  typename C::stream_type s;
  auto const ranks = static_cast<std::size_t>(comm.size());
  for (std::size_t const count : {std::size_t{0}, std::size_t{1}, ranks - 1, ranks, std::size_t{13},
                                  std::size_t{1031}, large_count}) {
    for (auto const combine_by : {reduction::sum, reduction::max, reduction::min})
      check_reductions<T>(comm, s, count, combine_by);
    check_copies<T>(comm, s, count);
  }
  comm.barrier(s).wait();
}

/// The communicators that split() makes work like others; calls of a communicator, its parts and
/// their parts may be in flight at the same time.
template <class C>
void check_splits(C& comm) {
  int const rank = comm.rank();
  C part = comm.split(rank % 2);
  require(part.rank() == rank / 2 && part.size() == (comm.size() + 1 - rank % 2) / 2,
          "the part of rank ", rank, " is wrong");
  require(part.world_rank(part.rank()) == comm.world_rank(rank), "world_rank of rank ", rank);
  check_type<float>(part, 131);
  check_order(part);
  C single = part.split(part.rank());
  require(single.size() == 1 && single.rank() == 0, "a part of one rank");
  C copy = part.split(7);
  C known_part = comm.split(coloring([](int member) { return member % 2; }), "known");
  require(known_part.rank() == part.rank() && known_part.size() == part.size() &&
              known_part.name() == "known",
          "a part whose colors all ranks know");
  typename C::stream_type s, second, third, fourth;
  std::vector<std::uint64_t> x(701, 1), y(33, 1), z(5, 1), k(17, 1);
  auto a = comm.all_reduce(s, std::span(x), reduction::sum);
  auto b = part.all_reduce(second, std::span(y), reduction::sum);
  auto c = copy.all_reduce(third, std::span(z), reduction::sum);
  auto d = known_part.all_reduce(fourth, std::span(k), reduction::sum);
  d.wait();
  c.wait();
  b.wait();
  a.wait();
  auto const all_equal = [](auto const& numbers, int value) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](auto n) { return n == static_cast<std::uint64_t>(value); });
  };
  require(all_equal(x, comm.size()) && all_equal(y, part.size()) && all_equal(z, part.size()) &&
              all_equal(k, part.size()),
          "sums over a whole and its parts");
}

/// Runs all tests for every element type, on `comm` and on parts of it. `large_count` is one more
/// count. Every rank must call it.
template <class C>
void check_all(C& comm, std::size_t large_count = 5003) {
  static_assert(has_collectives<C, bf16>);
  check_type<std::uint64_t>(comm, large_count);
  check_type<float>(comm, large_count);
  check_type<bf16>(comm, large_count);
  check_type<double>(comm, 131);
  check_type<std::int32_t>(comm, 131);
  check_type<std::int64_t>(comm, 131);
  check_type<std::uint8_t>(comm, 131);
  for (std::size_t const count : {std::size_t{0}, std::size_t{1}, large_count}) {
    check_wide_sums(comm, count);
    check_groups(comm, count);
  }
  check_order(comm);
  check_splits(comm);
}

}  // namespace parallel::conformance
