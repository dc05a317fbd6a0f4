// The bytes that every communicator with algorithms of its own must count as sent, on every rank.
//
// parallelism.md of the references, 3.3 and 3.4: over n ranks, ring volume.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/concepts.hpp>
#include <parallel/comm/detail/combine.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/core/error.hpp>

namespace test::comm_traffic {

namespace host = parallel::host;
using parallel::operation_kind;
using parallel::reduction;

/// Makes each kind of call once and throws `error` unless what was counted is the formula.
template <class C>
void check_traffic(C inner) {
  auto const recorder = std::make_shared<parallel::flight_recorder>();
  parallel::recorded whole(std::move(inner), recorder);
  host::stream s;
  auto const sent_by = [&](std::string const& axis, operation_kind kind, std::uint64_t payload) {
    auto const total = recorder->totals().at({axis, kind});
    parallel::require(total.calls == 1 && total.payload == payload, name_of(kind), ": ",
                      total.calls, " calls of ", total.payload, " bytes, expected 1 of ", payload);
    return total.sent;
  };
  auto const check = [&](auto& comm, std::string const& axis) {
    auto const n = static_cast<std::uint64_t>(comm.size());
    auto const me = comm.rank();
    std::vector<float> x(5 * n), y(5 * n), shard(5);
    std::uint64_t const data = 20 * n;
    auto const is = [&](operation_kind kind, std::uint64_t expected) {
      auto const sent = sent_by(axis, kind, data);
      parallel::require(sent == expected, name_of(kind), " over ", n, " ranks: rank ", me, " sent ",
                        sent, " bytes, expected ", expected, " for ", data, " of data");
    };
    comm.all_reduce(s, std::span(x), reduction::sum).wait();
    is(operation_kind::all_reduce, 2 * data * (n - 1) / n);
    comm.reduce_scatter(s, std::span(shard), x, reduction::sum).wait();
    is(operation_kind::reduce_scatter, data * (n - 1) / n);
    comm.all_gather(s, std::span(x), shard).wait();
    is(operation_kind::all_gather, data * (n - 1) / n);
    comm.all_to_all(s, std::span(y), x).wait();
    is(operation_kind::all_to_all, data * (n - 1) / n);
    comm.barrier(s).wait();
    if (n == 1) return;
    if (me == 0) {
      comm.send(s, std::span(x), 1).wait();
      is(operation_kind::send, data);
    } else if (me == 1) {
      comm.recv(s, std::span(x), 0).wait();
      is(operation_kind::recv, 0);
    }
    // Who sends a broadcast on is up to the backend, but every other rank is sent it once.
    comm.broadcast(s, std::span(x), comm.size() - 1).wait();
    std::vector<std::uint64_t> all{sent_by(axis, operation_kind::broadcast, data)};
    comm.all_reduce(s, std::span(all), reduction::sum).wait();
    parallel::require(all[0] == data * (n - 1), "broadcast over ", n, " ranks: sent ", all[0],
                      " bytes in all, expected ", data * (n - 1));
  };
  check(whole, "");
  auto part = whole.split(whole.rank() % 2, "tensor");
  check(part, "tensor");

  // Parts that are not equal: every rank sends the others their parts, then its own to all.
  auto uneven = whole.split(0, "uneven");
  auto const n = static_cast<std::uint64_t>(uneven.size());
  std::vector<float> x(7 * n + n / 2);
  uneven.all_reduce(s, std::span(x), reduction::max).wait();
  auto const mine = parallel::detail::chunk_of(x.size(), uneven.rank(), uneven.size()).count;
  auto const sent = sent_by("uneven", operation_kind::all_reduce, 4 * x.size());
  parallel::require(sent == 4 * ((x.size() - mine) + (n - 1) * mine),
                    "all_reduce of parts that differ sent ", sent, " bytes");
}

}  // namespace test::comm_traffic
