// Compares every exchange of device memory between ranks with a serial loop: bit for bit, except
// for sums of floats where the communicator adds in its own order.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/concepts.hpp>
#include <parallel/comm/registered_memory.hpp>
#include <parallel/conformance/values.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/device/buffer.hpp>

namespace test {

/// The order in which a communicator adds the floats of its ranks.
enum class sum_order { rank_order, unspecified };

/// Throws `error` unless each element is within (n - 1) u sum |x_r| of the sum of n ranks' values.
/// That bounds the error of n - 1 additions in any order, each rounded to T by at most u (Higham,
/// Accuracy and Stability of Numerical Algorithms, 4.2; 1 / (1 - (n - 1) u) has the higher orders).
/// Ranks that sum in a wider type round less.
template <class T>
void check_sums(std::vector<T> const& found, int ranks, std::size_t first, char const* exchange,
                int rank) {
  double const unit = std::is_same_v<T, parallel::bf16>
                          ? 0x1p-8
                          : static_cast<double>(std::numeric_limits<T>::epsilon()) / 2;
  double const share = (ranks - 1) * unit / (1 - (ranks - 1) * unit);
  for (std::size_t i = 0; i < found.size(); ++i) {
    double sum = 0, size = 0;
    for (int r = 0; r < ranks; ++r) {
      auto const x = static_cast<double>(parallel::conformance::value<T>(r, first + i));
      sum += x;
      size += std::abs(x);
    }
    double const computed = static_cast<double>(found[i]);
    parallel::require(std::abs(computed - sum) <= share * size, exchange, " of ", found.size(), " ",
                      parallel::to_string(parallel::dtype_of<T>), ", rank ", rank, ": element ", i,
                      " is ", computed, ", expected ", sum, " but for ", share * size);
  }
}

/// Compares each collective with `count` elements for each rank; throws `error` at a wrong element.
/// With `registered`, the exchanged memory is registered.
template <class T, class Comm, class Device>
void check_device_exchanges(Comm& comm, Device const& device, std::size_t count,
                            sum_order order = sum_order::rank_order, bool registered = false) {
  using namespace parallel;
  using conformance::values;
  auto const options = comm_options<Comm>(device);
  comm_stream<Device, Comm> s(options), receive_stream(options);
  int const own_rank = comm.rank();
  int const size = comm.size();
  auto const ranks = static_cast<std::size_t>(size);
  std::vector<registered_memory> registrations;
  auto const put_on_device = [&](std::vector<T> const& values_of_rank) {
    auto memory = registered ? allocate_exchanged<T>(device, values_of_rank.size())
                             : device.template allocate<T>(values_of_rank.size());
    if (registered) registrations.push_back(register_memory(comm, memory));
    device.upload(memory.span(), std::span<T const>(values_of_rank));
    return memory;
  };
  auto const on_host = [&](buffer<T> const& memory) {
    std::vector<T> elements(memory.size());
    device.download(std::span(elements), std::span<T const>(memory.span()));
    return elements;
  };
  auto const check = [&](buffer<T> const& computed, std::vector<T> const& expected,
                         char const* exchange) {
    conformance::require_equal(on_host(computed), expected, exchange, own_rank);
  };
  std::vector<T> const unwritten(count, T(77));
  std::vector<T> const all_unwritten(count * ranks, T(77));
  std::vector<T> gathered_values, columns;
  for (int r = 0; r < size; ++r) {
    for (T const v : values<T>(r, count)) gathered_values.push_back(v);
    for (T const v : values<T>(r, count, static_cast<std::size_t>(own_rank) * count))
      columns.push_back(v);
  }
  auto const own_values = put_on_device(values<T>(own_rank, count));
  auto const values_for_all = put_on_device(values<T>(own_rank, count * ranks));

  for (auto const operation : {reduction::sum, reduction::max, reduction::min}) {
    auto const x = put_on_device(values<T>(own_rank, count));
    comm.all_reduce(s, x.span(), operation).wait();
    auto const shard = put_on_device(unwritten);
    comm.reduce_scatter(s, shard.span(), std::span<T const>(values_for_all.span()), operation)
        .wait();
    std::size_t const shard_begin =
        static_cast<std::size_t>(own_rank) * count;  // first element of the shard
    if constexpr (!std::is_integral_v<T>) {
      if (operation == reduction::sum && order == sum_order::unspecified) {
        auto const sums = on_host(x);
        check_sums(sums, size, 0, "all_reduce", own_rank);
        check_sums(on_host(shard), size, shard_begin, "reduce_scatter", own_rank);
        auto const results_by_rank = put_on_device(all_unwritten);
        comm.all_gather(s, results_by_rank.span(), std::span<T const>(x.span())).wait();
        std::vector<T> repeated_sums;
        for (int r = 0; r < size; ++r)
          repeated_sums.insert(repeated_sums.end(), sums.begin(), sums.end());
        check(results_by_rank, repeated_sums, "the ranks' results of one all_reduce");
        continue;
      }
    }
    check(x, conformance::combined<T>(size, count, operation), "all_reduce");
    check(shard, conformance::combined<T>(size, count, operation, shard_begin), "reduce_scatter");
  }
  auto const gathered = put_on_device(all_unwritten);
  comm.all_gather(s, gathered.span(), std::span<T const>(own_values.span())).wait();
  check(gathered, gathered_values, "all_gather");
  auto const exchanged = put_on_device(all_unwritten);
  comm.all_to_all(s, exchanged.span(), std::span<T const>(values_for_all.span())).wait();
  check(exchanged, columns, "all_to_all");
  for (int root = 0; root < size; ++root) {
    auto const y = put_on_device(values<T>(own_rank, count, 17));
    comm.broadcast(s, y.span(), root).wait();
    check(y, values<T>(root, count, 17), "broadcast");
  }
  if (size > 1) {
    connect_neighbours(comm);
    int const next = (own_rank + 1) % size, previous = (own_rank + size - 1) % size;
    auto const message = put_on_device(unwritten);
    auto sent = comm.send(s, std::span<T const>(own_values.span()), next, 3);
    auto received = comm.recv(receive_stream, message.span(), previous, 3);
    received.wait();
    sent.wait();
    check(message, values<T>(previous, count), "message");
  }
  check(own_values, values<T>(own_rank, count), "the memory that was sent");
  check(values_for_all, values<T>(own_rank, count * ranks),
        "the input of reduce_scatter and all_to_all");
  comm.barrier(s).wait();
}

/// Checks every element type, for counts that divide evenly and that do not.
template <class Comm, class Device>
void check_all_device_exchanges(Comm& comm, Device const& device) {
  for (std::size_t const count :
       {std::size_t{0}, std::size_t{1}, std::size_t{13}, std::size_t{1031}, std::size_t{70001}}) {
    check_device_exchanges<std::uint64_t>(comm, device, count);
    check_device_exchanges<float>(comm, device, count);
    check_device_exchanges<parallel::bf16>(comm, device, count);
  }
  check_device_exchanges<double>(comm, device, 131);
  check_device_exchanges<std::int32_t>(comm, device, 131);
  check_device_exchanges<std::int64_t>(comm, device, 131);
  check_device_exchanges<std::uint8_t>(comm, device, 131);
}

/// Checks registered and unregistered memory with no element, one element and `large_count`
/// elements. The communicator is NCCL's, which adds floats in its own order.
template <class Comm, class Device>
void check_registered_exchanges(Comm& comm, Device const& device, std::size_t large_count) {
  for (bool const registered : {false, true})
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, large_count}) {
      check_device_exchanges<std::uint64_t>(comm, device, count, sum_order::unspecified,
                                            registered);
      check_device_exchanges<float>(comm, device, count, sum_order::unspecified, registered);
      check_device_exchanges<parallel::bf16>(comm, device, count, sum_order::unspecified,
                                             registered);
    }
}

}  // namespace test
