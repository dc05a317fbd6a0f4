// through_host on guarded memory, which the CPU cannot access: as with MPI, the communicator sends
// only host memory. Every operation must give the same result as on host memory.
#include <doctest/doctest.h>

#include <numeric>
#include <vector>

#include <parallel/comm/detail/through_host.hpp>
#include <parallel/comm/threads/run.hpp>

#include "support/devices/guarded_device.hpp"

namespace through_host_test {

using namespace parallel;

/// Runs this rank's `op` on copies in host memory, which `comm` exchanges.
void run_through_host(threads::communicator& comm, guarded::mover& mover, host::stream& s,
                      operation const& op) {
  host::stream mover_stream({.mover = &mover});
  parallel::detail::through_host(parallel::detail::exchange_mover(mover_stream), op, comm.size(),
                                 [&](operation const& reachable) {
                                   CHECK(reachable.in != op.in);
                                   comm.submit(s, reachable).wait();
                                 });
}

TEST_CASE("through_host: every collective on guarded memory gives the result of host memory") {
  constexpr std::size_t count = 5;
  constexpr int ranks = 3;
  auto const memory = std::make_shared<guarded::memory>(std::size_t{1} << 20);
  parallel::threads::run(ranks, [&](threads::communicator& comm) {
    guarded::device const device(memory);
    guarded::mover mover(memory);
    host::stream s;
    auto const own_rank = static_cast<std::uint64_t>(comm.rank());
    auto const check = [&](operation_kind kind, std::size_t in, std::size_t out, bool in_place,
                           int peer) {
      std::vector<std::uint64_t> input(in * count);
      std::iota(input.begin(), input.end(), 1000 * own_rank);
      auto const source = device.allocate<std::uint64_t>(in * count);
      auto const target = in_place ? source : device.allocate<std::uint64_t>(out * count);
      device.upload(source.span(), std::span<std::uint64_t const>(input));
      operation op{.kind = kind,
                   .type = dtype::u64,
                   .peer = peer,
                   .count = count,
                   .in = source.data(),
                   .out = target.data()};
      run_through_host(comm, mover, s, op);
      std::vector<std::uint64_t> received(out * count), expected(out * count);
      device.download(std::span(received), std::span<std::uint64_t const>(target.span()));
      op.in = input.data();
      op.out = expected.data();
      comm.submit(s, op).wait();
      CHECK(received == expected);
    };
    using enum operation_kind;
    check(all_reduce, 1, 1, false, -1);
    check(all_reduce, 1, 1, true, -1);
    check(reduce_scatter, ranks, 1, false, -1);
    check(all_gather, 1, ranks, false, -1);
    check(all_to_all, ranks, ranks, false, -1);
    check(broadcast, 1, 1, true, 1);
  });
}

TEST_CASE(
    "through_host: chunks are multiples of the number of ranks, so that no more bytes are sent") {
  auto const memory = std::make_shared<guarded::memory>(std::size_t{1} << 20);
  guarded::mover mover(memory);
  host::stream mover_stream({.mover = &mover});
  constexpr std::size_t capacity = parallel::detail::staging_bytes / 4 / sizeof(float);
  auto const chunks = [&](operation_kind kind, std::size_t count, int ranks, dtype type) {
    std::vector<std::size_t> out;
    operation const op{.kind = kind, .type = type, .count = count};
    parallel::detail::staged_operation const staged(parallel::detail::exchange_mover(mover_stream),
                                                    op, static_cast<std::size_t>(ranks));
    for (std::size_t k = 0; k < staged.chunks(); ++k)
      out.push_back(staged.chunk_operation(k).count);
    return out;
  };
  using enum operation_kind;
  using sizes = std::vector<std::size_t>;
  CHECK(chunks(send, 0, 2, dtype::f32) == sizes{0});
  CHECK(chunks(send, capacity, 2, dtype::f32) == sizes{capacity});
  CHECK(chunks(recv, 2 * capacity + 1, 2, dtype::f32) == sizes{capacity, capacity, 1});
  CHECK(chunks(all_reduce, capacity + 5, 3, dtype::f32) == sizes{capacity - 1, 6});
  CHECK(chunks(all_gather, capacity, 4, dtype::bf16) == sizes{capacity / 2, capacity / 2});
  CHECK(chunks(reduce_scatter, 7, 3, dtype::f64) == sizes{7});
  CHECK_THROWS_WITH_AS(
      static_cast<void>(chunks(all_to_all, 1, 1 << 20, dtype::f64)),
      "an exchange between 1048576 ranks does not fit the 16777216 bytes that it is staged in",
      parallel::error);
}

TEST_CASE("through_host: without a mover the operation is not copied") {
  host::stream const plain;
  int value = 7;
  operation const op{.type = dtype::i32, .count = 1, .in = &value, .out = &value};
  parallel::detail::through_host(parallel::detail::exchange_mover(plain), op, 2,
                                 [&](operation const& copied) { CHECK(copied.in == &value); });
}

}  // namespace through_host_test
