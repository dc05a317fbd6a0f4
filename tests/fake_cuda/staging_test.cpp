// Exchanges of fake GPUs' memory by a backend of the host's: through pinned memory that is kept and
// bounded, however long they are, and the same elements arrive.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include <parallel/comm/detail/through_host.hpp>

#include "fake_cuda/ranks.hpp"

namespace fake_staging_test {

using namespace parallel;
using parallel::detail::staging_bytes;

/// A stream of exchanges, and one of a backend that only knows the host's memory.
struct exchange_streams {
  cuda::comm_stream on_gpu;
  host::stream on_host;

  explicit exchange_streams(cuda::device const& gpu) : on_gpu({.mover_stream = gpu.compute_options()}) {}

  /// Blocks.
  void run(threads::communicator& comm, operation const& op) {
    on_gpu.enqueue([&] {
      parallel::detail::through_host(
          parallel::detail::exchange_mover(on_gpu), op, comm.size(), [&](operation const& reachable) {
            CHECK(fake_cuda::device_of(reachable.in) == -1);
            CHECK(reachable.count * size_of(op.type) <= staging_bytes / 4);
            comm.submit(on_host, reachable).wait();
          });
    });
    on_gpu.synchronize();
  }
};

/// What an operation reads and writes on a rank, on the GPU and by the host alone.
template <class T>
struct exchanged {
  std::vector<T> given, expected;
  buffer<T> from, to;
  operation op;

  exchanged(cuda::device const& gpu, threads::communicator& comm, operation_kind kind,
            std::size_t count, reduction how, std::uint64_t first)
      : op{.kind = kind, .type = dtype_of<T>, .combine = how, .peer = -1, .count = count} {
    auto const shards = parallel::detail::shards_of(kind, static_cast<std::size_t>(comm.size()));
    for (std::size_t i = 0; i < shards.in * count; ++i)
      given.push_back(static_cast<T>(
          static_cast<float>((first + 13 * static_cast<std::uint64_t>(comm.rank()) + i) % 251)));
    expected.resize(shards.out * count);
    if (kind == operation_kind::broadcast) op.peer = 1;
    from = gpu.allocate<T>(given.size());
    to = gpu.allocate<T>(expected.size());
    gpu.upload(from.span(), std::span<T const>(given));
    host::stream s;
    op.in = given.data();
    op.out = expected.data();
    comm.submit(s, op).wait();
    op.in = from.data();
    op.out = to.data();
  }

  [[nodiscard]] bool arrived(cuda::device const& gpu) const {
    std::vector<T> got(expected.size());
    gpu.download(std::span(got), std::span<T const>(to.span()));
    return got == expected;
  }
};

constexpr int ranks = 3;

/// Bytes that were copied from or to pageable memory since `before`.
std::size_t pageable_since(std::size_t before) {
  return fake_cuda::happened().pageable_bytes - before;
}

/// Of each kind an exchange of so many chunks and some elements more.
template <class T>
void check_kinds(std::size_t chunks, std::size_t more, reduction how) {
  fake_cuda::restart({.devices = ranks, .seed = more});
  CHECK_NOTHROW(fake_cuda::ranks_on(ranks)(ranks, [&](threads::communicator& comm) {
    auto const gpu = fake_cuda::current_gpu();
    exchange_streams streams(gpu);
    for (auto const kind :
         {operation_kind::all_reduce, operation_kind::reduce_scatter, operation_kind::all_gather,
          operation_kind::all_to_all, operation_kind::broadcast}) {
      CAPTURE(name_of(kind));
      auto const shards = parallel::detail::shards_of(kind, ranks);
      std::size_t const of_chunk =
          staging_bytes / 4 / (std::max(shards.in, shards.out) * sizeof(T));
      std::size_t const count = chunks * of_chunk + more;
      exchanged<T> const one(gpu, comm, kind, count, how, 5);
      comm.barrier(streams.on_host).wait();
      auto const before = fake_cuda::happened().pageable_bytes;
      comm.barrier(streams.on_host).wait();
      streams.run(comm, one.op);
      comm.barrier(streams.on_host).wait();
      CHECK(pageable_since(before) == 0);
      comm.barrier(streams.on_host).wait();
      CHECK(one.arrived(gpu));
    }
  }));
  auto const happened = fake_cuda::happened();
  CHECK(happened.failures.empty());
  CHECK(happened.pinned_pieces == ranks);  // one a stream, for all of its exchanges
  CHECK(happened.pinned_bytes == ranks * staging_bytes);
}

TEST_CASE("exchanges longer than what they are staged in, of a size that chunks do not divide") {
  check_kinds<std::uint64_t>(2, 1234, reduction::sum);
  check_kinds<bf16>(1, 77, reduction::max);
}

TEST_CASE("short ones, and ones of nothing") {
  check_kinds<float>(0, 5, reduction::sum);
  check_kinds<std::int32_t>(0, 0, reduction::sum);
}

TEST_CASE("two exchanges at once, of different lengths, each have their own place") {
  fake_cuda::restart({.devices = 2, .seed = 3});
  CHECK_NOTHROW(fake_cuda::ranks_on(2)(2, [&](threads::communicator& comm) {
    auto const gpu = fake_cuda::current_gpu();
    auto other = comm.split(0);
    exchange_streams first(gpu), second(gpu);
    exchanged<std::uint64_t> const sums(gpu, comm, operation_kind::all_reduce,
                                        staging_bytes / 16 + 1, reduction::sum, 1);
    exchanged<std::uint8_t> const all(gpu, other, operation_kind::all_gather, staging_bytes / 6 + 9,
                                      reduction::sum, 2);
    std::thread beside([&] { second.run(other, all.op); });
    first.run(comm, sums.op);
    beside.join();
    CHECK(sums.arrived(gpu));
    CHECK(all.arrived(gpu));
  }));
  CHECK(fake_cuda::happened().failures.empty());
  CHECK(fake_cuda::happened().pinned_bytes == 4 * staging_bytes);
}

TEST_CASE("messages are cut alike on both sides") {
  fake_cuda::restart({.devices = 2});
  CHECK_NOTHROW(fake_cuda::ranks_on(2)(2, [&](threads::communicator& comm) {
    auto const gpu = fake_cuda::current_gpu();
    exchange_streams streams(gpu);
    std::vector<std::int32_t> sent(staging_bytes / 8 + 3);
    std::iota(sent.begin(), sent.end(), 7);
    auto const there = gpu.allocate<std::int32_t>(sent.size());
    bool const sends = comm.rank() == 0;
    if (sends) gpu.upload(there.span(), std::span<std::int32_t const>(sent));
    streams.run(comm, {.kind = sends ? operation_kind::send : operation_kind::recv,
                       .type = dtype::i32,
                       .peer = 1 - comm.rank(),
                       .count = sent.size(),
                       .in = there.data(),
                       .out = there.data()});
    std::vector<std::int32_t> got(sent.size());
    gpu.download(std::span(got), std::span<std::int32_t const>(there.span()));
    CHECK(got == sent);
  }));
  CHECK(fake_cuda::happened().failures.empty());
}

}  // namespace fake_staging_test
