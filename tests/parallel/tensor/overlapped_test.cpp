// The order of events: what is exchanged while what is computed; and devices with kernels of their
// own.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
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

/// A host stream that logs the beginning and the end of its products.
struct telling_stream : parallel::host::stream {
  test::trace* log = nullptr;
  int products = 0;
};

void run_operation(telling_stream& s, parallel::ops::matmul_arguments<ring, ring> const& a) {
  int const k = s.products++;
  s.enqueue([k, log = s.log] { log->add(parallel::concat("product ", k, " begins")); });
  run_operation(static_cast<parallel::host::stream&>(s), a);
  s.enqueue([k, log = s.log] { log->add(parallel::concat("product ", k, " ends")); });
}

constexpr int ranks = 3;
constexpr index rows = 2;
constexpr index width = 4;

/// f(group, context) on three ranks; on rank 0 call k of the communicator, sends and receives in
/// turn, is over when hold(log, k) returns.
template <class Hold, class F>
void run(Hold hold, F f) {
  parallel::threads::run(ranks, [&](parallel::threads::communicator& own) {
    bool const slow = own.rank() == 0;
    test::trace log;
    test::delayed comm(std::move(own), log, [&](int k) {
      if (slow) hold(log, k);
    });
    telling_stream compute;
    compute.log = &log;
    parallel::host::stream exchanges, back;
    parallel::axis_group<parallel::axis::tensor, decltype(comm)> const group(comm, exchanges, back);
    std::vector<std::byte> space(1 << 16);
    parallel::arena memory({nullptr, space.data(), space.size()});
    parallel::context<telling_stream> c{.stream = compute, .memory = memory};
    f(group, c);
    compute.synchronize();
  });
}

std::vector<ring> ones(index count) {
  return std::vector<ring>(static_cast<std::size_t>(count), 1);
}

TEST_CASE("shards are multiplied while the next ones are coming") {
  std::atomic<int> in_time = 0;
  run(
      // what is received by call 2 i + 1 is multiplied as product i + 1: the one before is computed
      // while it is held up
      [&](test::trace& log, int k) {
        if (k % 2 == 1 && log.await(parallel::concat("product ", k / 2, " ends"), 20s)) ++in_time;
      },
      [](auto const& group, auto& c) {
        auto const shard = ones(rows * width);
        auto const b = ones(width * width);
        std::vector<ring> y(shard.size() * ranks), all(y.size());
        parallel::tensor::all_gather_matmul(
            c, group, own_columns<ring>{{y.data(), {ranks * rows, width}}},
            matrix_view<ring>(all.data(), {ranks * rows, width}), {shard.data(), {rows, width}},
            {b.data(), {width, width}});
        c.stream.synchronize();
        CHECK(y == std::vector<ring>(y.size(), width));
        CHECK(all == ones(std::ssize(all)));
      });
  CHECK(in_time == ranks - 1);
}

TEST_CASE("a shard is on its way while the next is multiplied") {
  std::atomic<int> in_time = 0;
  run(
      [&](test::trace& log, int k) {
        if (k % 2 == 0 && log.await(parallel::concat("product ", k / 2 + 1, " ends"), 20s))
          ++in_time;
      },
      [](auto const& group, auto& c) {
        auto const a = ones(ranks * rows * width);
        auto const b = ones(width * width);
        auto const y = parallel::tensor::matmul_reduce_scatter(
            c, group, own_columns<ring const>{{a.data(), {ranks * rows, width}}},
            {b.data(), {width, width}});
        c.stream.synchronize();
        CHECK(std::vector<ring>(y.data(), y.data() + y.size()) ==
              std::vector<ring>(rows * width, ranks * width));
      });
  CHECK(in_time == ranks - 1);
}

/// A device whose stream brings kernels for the whole.
struct own_stream : parallel::host::stream {
  int called = 0;
};
template <class Group>
void all_gather_matmul_impl(parallel::context<own_stream>& c, Group const&, matrix_view<ring>,
                            matrix_view<ring>, matrix_view<ring const>, matrix_view<ring const>,
                            parallel::ops::matmul_options) {
  c.stream.called += 1;
}
template <class Group>
void matmul_reduce_scatter_impl(parallel::context<own_stream>& c, Group const&, matrix_view<ring>,
                                matrix_view<ring const>, matrix_view<ring const>,
                                parallel::ops::matmul_options, matrix_view<ring const>) {
  c.stream.called += 10;
}

TEST_CASE("a device may bring kernels of its own; shapes are checked before") {
  using group = parallel::axis_group<parallel::axis::tensor, parallel::threads::communicator>;
  auto const two = group::planned(0, 2);
  own_stream stream;
  parallel::arena memory;
  parallel::context<own_stream> c{.stream = stream, .memory = memory};
  auto const matrix = [](index r) { return matrix_view<ring>(nullptr, {r, width}); };
  auto const some = [&](index r) { return own_columns<ring>{matrix(r)}; };
  auto const factor = [&](index r) { return own_columns<ring const>{matrix(r)}; };
  parallel::tensor::all_gather_matmul(c, two, some(4), matrix(4), matrix(2), matrix(4));
  auto const y = parallel::tensor::matmul_reduce_scatter(c, two, factor(4), matrix(4));
  CHECK(y.extents() == parallel::shape<2>{2, width});
  CHECK(stream.called == 11);
  CHECK_THROWS_WITH_AS(
      parallel::tensor::all_gather_matmul(c, two, some(4), matrix(5), matrix(2), matrix(4)),
      "all_gather_matmul: 5 rows are not 2 shards of 2", parallel::error);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(parallel::tensor::matmul_reduce_scatter(c, two, factor(5), matrix(4))),
      "matmul_reduce_scatter: 5 rows are not 2 shards of 2", parallel::error);
}

}  // namespace overlapped_test
