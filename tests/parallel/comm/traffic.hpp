// Checks the bytes that a communicator with algorithms of its own counts as sent on every rank: the
// volume of ring algorithms over n ranks (parallelism.md of the references, 3.3 and 3.4).
#pragma once

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

/// Makes each kind of call once and throws `error` unless the counted bytes follow the formula.
template <class C>
void check_traffic(C inner) {
  auto const recorder = std::make_shared<parallel::flight_recorder>();
  parallel::recorded world(std::move(inner), recorder);
  host::stream s;
  auto const sent_by = [&](std::string const& axis, operation_kind kind, std::uint64_t payload) {
    auto const total = recorder->totals().at({axis, kind});
    parallel::require(total.calls == 1 && total.payload == payload, to_string(kind), ": ",
                      total.calls, " calls of ", total.payload, " bytes, expected 1 of ", payload);
    return total.sent;
  };
  auto const check = [&](auto& comm, std::string const& axis) {
    auto const n = static_cast<std::uint64_t>(comm.size());
    auto const own_rank = comm.rank();
    std::vector<float> x(5 * n), y(5 * n), shard(5);
    std::uint64_t const data = 20 * n;
    auto const check_sent = [&](operation_kind kind, std::uint64_t expected) {
      auto const sent = sent_by(axis, kind, data);
      parallel::require(sent == expected, to_string(kind), " over ", n, " ranks: rank ", own_rank,
                        " sent ", sent, " bytes, expected ", expected, " for ", data, " of data");
    };
    comm.all_reduce(s, std::span(x), reduction::sum).wait();
    check_sent(operation_kind::all_reduce, 2 * data * (n - 1) / n);
    comm.reduce_scatter(s, std::span(shard), x, reduction::sum).wait();
    check_sent(operation_kind::reduce_scatter, data * (n - 1) / n);
    comm.all_gather(s, std::span(x), shard).wait();
    check_sent(operation_kind::all_gather, data * (n - 1) / n);
    comm.all_to_all(s, std::span(y), x).wait();
    check_sent(operation_kind::all_to_all, data * (n - 1) / n);
    comm.barrier(s).wait();
    if (n == 1) return;
    if (own_rank == 0) {
      comm.send(s, std::span(x), 1).wait();
      check_sent(operation_kind::send, data);
    } else if (own_rank == 1) {
      comm.recv(s, std::span(x), 0).wait();
      check_sent(operation_kind::recv, 0);
    }
    // Which rank forwards a broadcast is up to the backend, but every other rank receives it once.
    comm.broadcast(s, std::span(x), comm.size() - 1).wait();
    std::vector<std::uint64_t> total_sent{sent_by(axis, operation_kind::broadcast, data)};
    comm.all_reduce(s, std::span(total_sent), reduction::sum).wait();
    parallel::require(total_sent[0] == data * (n - 1), "broadcast over ", n, " ranks: sent ",
                      total_sent[0], " bytes in all, expected ", data * (n - 1));
  };
  check(world, "");
  auto group = world.split(world.rank() % 2, "tensor");
  check(group, "tensor");

  // With unequal parts, every rank sends each other rank that rank's part, then its own to all.
  auto uneven = world.split(0, "uneven");
  auto const n = static_cast<std::uint64_t>(uneven.size());
  std::vector<float> x(7 * n + n / 2);
  uneven.all_reduce(s, std::span(x), reduction::max).wait();
  auto const own_count = parallel::detail::chunk_of(x.size(), uneven.rank(), uneven.size()).count;
  auto const sent = sent_by("uneven", operation_kind::all_reduce, 4 * x.size());
  parallel::require(sent == 4 * ((x.size() - own_count) + (n - 1) * own_count),
                    "all_reduce of parts that differ sent ", sent, " bytes");
}

}  // namespace test::comm_traffic
