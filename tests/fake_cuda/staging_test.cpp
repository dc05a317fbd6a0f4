// Exchanges of fake GPUs' memory by a backend of the host: they pass through pinned memory, which
// is reused and bounded for any length, and the same elements arrive.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include <parallel/comm/detail/through_host.hpp>

#include "fake_cuda/ranks.hpp"

namespace fake_staging_test {

using namespace parallel;
using parallel::detail::staging_bytes;

/// A GPU's stream of exchanges, and the stream of a backend that can only use the host's memory.
struct exchange_streams {
  cuda::comm_stream on_gpu;
  host::stream on_host;

  explicit exchange_streams(cuda::device const& gpu)
      : on_gpu({.mover_stream = gpu.compute_options()}) {}

  /// Runs an exchange and waits for it.
  void run(threads::communicator& comm, operation const& op) {
    on_gpu.enqueue([&] {
      parallel::detail::through_host(
          parallel::detail::exchange_mover(on_gpu), op, comm.size(),
          [&](operation const& reachable) {
            CHECK(fake_cuda::device_of(reachable.in) == -1);
            CHECK(reachable.count * size_of(op.type) <= staging_bytes / 4);
            comm.submit(on_host, reachable).wait();
          });
    });
    on_gpu.synchronize();
  }
};

/// The arrays of an operation on a rank: its input, the result that the host computes, and the
/// GPU's copies of both.
template <class T>
struct exchange_arrays {
  std::vector<T> input, expected;
  buffer<T> from, to;
  operation op;

  exchange_arrays(cuda::device const& gpu, threads::communicator& comm, operation_kind kind,
                  std::size_t count, reduction combine, std::uint64_t first)
      : op{.kind = kind, .type = dtype_of<T>, .combine = combine, .peer = -1, .count = count} {
    auto const shards = parallel::detail::shards_of(kind, static_cast<std::size_t>(comm.size()));
    for (std::size_t i = 0; i < shards.in * count; ++i)
      input.push_back(static_cast<T>(
          static_cast<float>((first + 13 * static_cast<std::uint64_t>(comm.rank()) + i) % 251)));
    expected.resize(shards.out * count);
    if (kind == operation_kind::broadcast) op.peer = 1;
    from = gpu.allocate<T>(input.size());
    to = gpu.allocate<T>(expected.size());
    gpu.upload(from.span(), std::span<T const>(input));
    host::stream s;
    op.in = input.data();
    op.out = expected.data();
    comm.submit(s, op).wait();
    op.in = from.data();
    op.out = to.data();
  }

  [[nodiscard]] bool has_arrived(cuda::device const& gpu) const {
    std::vector<T> got(expected.size());
    gpu.download(std::span(got), std::span<T const>(to.span()));
    return got == expected;
  }
};

constexpr int ranks = 3;

/// Bytes that were copied from or to pageable memory since `bytes_before`.
std::size_t pageable_since(std::size_t bytes_before) {
  return fake_cuda::history().pageable_bytes - bytes_before;
}

/// Checks an exchange of each kind, of `chunks` full chunks and `remainder` elements.
template <class T>
void check_kinds(std::size_t chunks, std::size_t remainder, reduction combine) {
  fake_cuda::restart({.devices = ranks, .seed = remainder});
  CHECK_NOTHROW(fake_cuda::ranks_on(ranks)(ranks, [&](threads::communicator& comm) {
    auto const gpu = fake_cuda::current_gpu();
    exchange_streams streams(gpu);
    for (auto const kind :
         {operation_kind::all_reduce, operation_kind::reduce_scatter, operation_kind::all_gather,
          operation_kind::all_to_all, operation_kind::broadcast}) {
      CAPTURE(to_string(kind));
      auto const shards = parallel::detail::shards_of(kind, ranks);
      std::size_t const chunk_elements =
          staging_bytes / 4 / (std::max(shards.in, shards.out) * sizeof(T));
      std::size_t const count = chunks * chunk_elements + remainder;
      exchange_arrays<T> const arrays(gpu, comm, kind, count, combine, 5);
      comm.barrier(streams.on_host).wait();
      auto const bytes_before = fake_cuda::history().pageable_bytes;
      comm.barrier(streams.on_host).wait();
      streams.run(comm, arrays.op);
      comm.barrier(streams.on_host).wait();
      CHECK(pageable_since(bytes_before) == 0);
      comm.barrier(streams.on_host).wait();
      CHECK(arrays.has_arrived(gpu));
    }
  }));
  auto const history = fake_cuda::history();
  CHECK(history.failures.empty());
  CHECK(history.pinned_pieces == ranks);  // one for each stream, shared by all of its exchanges
  CHECK(history.pinned_bytes == ranks * staging_bytes);
}

TEST_CASE("staging: exchanges of several chunks and a remainder arrive, in bounded pinned memory") {
  check_kinds<std::uint64_t>(2, 1234, reduction::sum);
  check_kinds<bf16>(1, 77, reduction::max);
}

TEST_CASE("staging: short and empty exchanges arrive") {
  check_kinds<float>(0, 5, reduction::sum);
  check_kinds<std::int32_t>(0, 0, reduction::sum);
}

TEST_CASE("staging: two concurrent exchanges of different lengths use separate pinned memory") {
  fake_cuda::restart({.devices = 2, .seed = 3});
  CHECK_NOTHROW(fake_cuda::ranks_on(2)(2, [&](threads::communicator& comm) {
    auto const gpu = fake_cuda::current_gpu();
    auto other = comm.split(0);
    exchange_streams first(gpu), second(gpu);
    exchange_arrays<std::uint64_t> const sums(gpu, comm, operation_kind::all_reduce,
                                              staging_bytes / 16 + 1, reduction::sum, 1);
    exchange_arrays<std::uint8_t> const gathered(gpu, other, operation_kind::all_gather,
                                                 staging_bytes / 6 + 9, reduction::sum, 2);
    std::thread second_exchange([&] { second.run(other, gathered.op); });
    first.run(comm, sums.op);
    second_exchange.join();
    CHECK(sums.has_arrived(gpu));
    CHECK(gathered.has_arrived(gpu));
  }));
  CHECK(fake_cuda::history().failures.empty());
  CHECK(fake_cuda::history().pinned_bytes == 4 * staging_bytes);
}

TEST_CASE("staging: a long message is cut into the same chunks on both sides") {
  fake_cuda::restart({.devices = 2});
  CHECK_NOTHROW(fake_cuda::ranks_on(2)(2, [&](threads::communicator& comm) {
    auto const gpu = fake_cuda::current_gpu();
    exchange_streams streams(gpu);
    std::vector<std::int32_t> sent(staging_bytes / 8 + 3);
    std::iota(sent.begin(), sent.end(), 7);
    auto const message = gpu.allocate<std::int32_t>(sent.size());
    bool const sends = comm.rank() == 0;
    if (sends) gpu.upload(message.span(), std::span<std::int32_t const>(sent));
    streams.run(comm, {.kind = sends ? operation_kind::send : operation_kind::recv,
                       .type = dtype::i32,
                       .peer = 1 - comm.rank(),
                       .count = sent.size(),
                       .in = message.data(),
                       .out = message.data()});
    std::vector<std::int32_t> got(sent.size());
    gpu.download(std::span(got), std::span<std::int32_t const>(message.span()));
    CHECK(got == sent);
  }));
  CHECK(fake_cuda::history().failures.empty());
}

}  // namespace fake_staging_test
