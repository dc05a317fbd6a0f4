// Exchanges overlap with products in the right order, and a device may have its own kernels for
// both together.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/tensor/overlapped.hpp>

#include "support/trace.hpp"

namespace overlapped_test {

using parallel::index;
using parallel::matrix_view;
using parallel::tensor::own_columns;
using ring = std::uint64_t;
using namespace std::chrono_literals;

/// A host stream that logs the start and the end of its products.
struct logging_stream : parallel::host::stream {
  test::trace* log = nullptr;
  int products = 0;
};

void run_operation(logging_stream& s, parallel::ops::matmul_arguments<ring, ring> const& a) {
  int const k = s.products++;
  s.enqueue([k, log = s.log] { log->add(parallel::concat("product ", k, " begins")); });
  run_operation(static_cast<parallel::host::stream&>(s), a);
  s.enqueue([k, log = s.log] { log->add(parallel::concat("product ", k, " ends")); });
}

constexpr int ranks = 3;
constexpr index rows = 2;
constexpr index width = 4;

/// Runs f(group, context) on three ranks; on rank 0 call k of the communicator (sends and receives
/// alternate) ends when hold(log, k) returns.
template <class Hold, class F>
void run(Hold hold, F f) {
  parallel::threads::run(ranks, [&](parallel::threads::communicator& inner) {
    bool const is_delayed = inner.rank() == 0;
    test::trace log;
    test::delayed comm(std::move(inner), log, [&](int k) {
      if (is_delayed) hold(log, k);
    });
    logging_stream compute;
    compute.log = &log;
    parallel::host::stream exchanges, second_exchanges;
    parallel::axis_group<parallel::axis::tensor, decltype(comm)> const group(comm, exchanges,
                                                                             second_exchanges);
    std::vector<std::byte> space(1 << 16);
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::context<logging_stream> c{.stream = compute, .memory = memory};
    f(group, c);
    compute.synchronize();
  });
}

std::vector<ring> filled_with_ones(index count) {
  return std::vector<ring>(static_cast<std::size_t>(count), 1);
}

TEST_CASE("all_gather_matmul: shards are multiplied while the next ones are received") {
  std::atomic<int> in_time = 0;
  run(
      // the shard received by call 2 i + 1 is the input of product i + 1: the product before it is
      // computed while that call is delayed
      [&](test::trace& log, int k) {
        if (k % 2 == 1 && log.await(parallel::concat("product ", k / 2, " ends"), 20s)) ++in_time;
      },
      [](auto const& group, auto& c) {
        auto const shard = filled_with_ones(rows * width);
        auto const b = filled_with_ones(width * width);
        std::vector<ring> y(shard.size() * ranks), gathered(y.size());
        parallel::tensor::all_gather_matmul(
            c, group, own_columns<ring>{{y.data(), {ranks * rows, width}}},
            matrix_view<ring>(gathered.data(), {ranks * rows, width}),
            {shard.data(), {rows, width}}, {b.data(), {width, width}});
        c.stream.synchronize();
        CHECK(y == std::vector<ring>(y.size(), width));
        CHECK(gathered == filled_with_ones(std::ssize(gathered)));
      });
  CHECK(in_time == ranks - 1);
}

TEST_CASE("matmul_reduce_scatter: a shard is sent while the next one is multiplied") {
  std::atomic<int> in_time = 0;
  run(
      // call 2 i sends the result of product i: the product after it is computed while that call is
      // delayed
      [&](test::trace& log, int k) {
        if (k % 2 == 0 && log.await(parallel::concat("product ", k / 2 + 1, " ends"), 20s))
          ++in_time;
      },
      [](auto const& group, auto& c) {
        auto const a = filled_with_ones(ranks * rows * width);
        auto const b = filled_with_ones(width * width);
        auto const y = parallel::tensor::matmul_reduce_scatter(
            c, group, own_columns<ring const>{{a.data(), {ranks * rows, width}}},
            {b.data(), {width, width}});
        c.stream.synchronize();
        CHECK(std::vector<ring>(y.data(), y.data() + y.size()) ==
              std::vector<ring>(rows * width, ranks * width));
      });
  CHECK(in_time == ranks - 1);
}

/// A device whose stream has kernels for the whole operations.
struct custom_stream : parallel::host::stream {
  int call_code = 0;  // 1 for each all_gather_matmul, 10 for each matmul_reduce_scatter
};
template <class Group>
void all_gather_matmul_impl(parallel::context<custom_stream>& c, Group const&, matrix_view<ring>,
                            matrix_view<ring>, matrix_view<ring const>, matrix_view<ring const>,
                            parallel::ops::matmul_options) {
  c.stream.call_code += 1;
}
template <class Group>
void matmul_reduce_scatter_impl(parallel::context<custom_stream>& c, Group const&,
                                matrix_view<ring>, matrix_view<ring const>, matrix_view<ring const>,
                                parallel::ops::matmul_options, matrix_view<ring const>) {
  c.stream.call_code += 10;
}

TEST_CASE("overlapped products: shapes are checked before a device's custom kernels run") {
  using group = parallel::axis_group<parallel::axis::tensor, parallel::threads::communicator>;
  auto const pair = group::planned(0, 2);
  custom_stream stream;
  parallel::arena memory;
  parallel::context<custom_stream> c{.stream = stream, .memory = memory};
  auto const matrix = [](index r) { return matrix_view<ring>(nullptr, {r, width}); };
  auto const columns = [&](index r) { return own_columns<ring>{matrix(r)}; };
  auto const factor = [&](index r) { return own_columns<ring const>{matrix(r)}; };
  parallel::tensor::all_gather_matmul(c, pair, columns(4), matrix(4), matrix(2), matrix(4));
  auto const y = parallel::tensor::matmul_reduce_scatter(c, pair, factor(4), matrix(4));
  CHECK(y.extents() == parallel::shape<2>{2, width});
  CHECK(stream.call_code == 11);
  CHECK_THROWS_WITH_AS(
      parallel::tensor::all_gather_matmul(c, pair, columns(4), matrix(5), matrix(2), matrix(4)),
      "all_gather_matmul: 5 rows are not 2 shards of 2", parallel::error);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(parallel::tensor::matmul_reduce_scatter(c, pair, factor(5), matrix(4))),
      "matmul_reduce_scatter: 5 rows are not 2 shards of 2", parallel::error);
}

}  // namespace overlapped_test
