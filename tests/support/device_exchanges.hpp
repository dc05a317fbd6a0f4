// Every exchange of a device's memory between ranks, held against a serial loop: to the bit, but
// for sums of floats where the communicator adds in an order of its own.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <parallel/comm/comm_stream.hpp>
#include <parallel/comm/neighbours.hpp>
#include <parallel/comm/registered_memory.hpp>
#include <parallel/conformance/values.hpp>
#include <parallel/core/dtype.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/device/exchanged_memory.hpp>

namespace test {

/// In which order a communicator adds the floats of its ranks.
enum class sum_order { of_ranks, unspecified };

/// Throws `error` unless each element is within (n - 1) u sum |x_r| of the sum of n ranks' values,
/// which n - 1 additions in any order come to, each of them rounded to T by at most u (Higham,
/// Accuracy and Stability of Numerical Algorithms, 4.2; 1 / (1 - (n - 1) u) has the higher orders).
/// Ranks that sum in a wider type round less.
template <class T>
void check_sums(std::vector<T> const& found, int ranks, std::size_t first, char const* what,
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
    double const got = static_cast<double>(found[i]);
    parallel::require(std::abs(got - sum) <= share * size, what, " of ", found.size(), " ",
                      parallel::name_of(parallel::dtype_of<T>), ", rank ", rank, ": element ", i,
                      " is ", got, ", expected ", sum, " but for ", share * size);
  }
}

/// `count` elements a rank in a collective, each result compared; throws `error` at a wrong one.
/// `registered`: in exchanged memory that is registered.
template <class T, class Comm, class Device>
void check_device_exchanges(Comm& comm, Device const& device, std::size_t count,
                            sum_order order = sum_order::of_ranks, bool registered = false) {
  using namespace parallel;
  using conformance::values;
  auto const options = comm_options<Comm>(device);
  comm_stream<Device, Comm> s(options), other(options);
  int const me = comm.rank();
  int const size = comm.size();
  auto const ranks = static_cast<std::size_t>(size);
  std::vector<registered_memory> kept;
  auto const place = [&](std::vector<T> const& from) {
    auto there = registered ? allocate_exchanged<T>(device, from.size())
                            : device.template allocate<T>(from.size());
    if (registered) kept.push_back(register_memory(comm, there));
    device.upload(there.span(), std::span<T const>(from));
    return there;
  };
  auto const on_host = [&](buffer<T> const& there) {
    std::vector<T> here(there.size());
    device.download(std::span(here), std::span<T const>(there.span()));
    return here;
  };
  auto const check = [&](buffer<T> const& got, std::vector<T> const& expected, char const* what) {
    conformance::same(on_host(got), expected, what, me);
  };
  std::vector<T> const nothing(count, T(77));
  std::vector<T> const nothing_of_all(count * ranks, T(77));
  std::vector<T> all, columns;
  for (int r = 0; r < size; ++r) {
    for (T const v : values<T>(r, count)) all.push_back(v);
    for (T const v : values<T>(r, count, static_cast<std::size_t>(me) * count))
      columns.push_back(v);
  }
  auto const mine = place(values<T>(me, count));
  auto const for_all = place(values<T>(me, count * ranks));

  for (auto const how : {reduction::sum, reduction::max, reduction::min}) {
    auto const x = place(values<T>(me, count));
    comm.all_reduce(s, x.span(), how).wait();
    auto const shard = place(nothing);
    comm.reduce_scatter(s, shard.span(), std::span<T const>(for_all.span()), how).wait();
    std::size_t const first = static_cast<std::size_t>(me) * count;  // of the shard
    if constexpr (!std::is_integral_v<T>) {
      if (how == reduction::sum && order == sum_order::unspecified) {
        auto const sums = on_host(x);
        check_sums(sums, size, 0, "all_reduce", me);
        check_sums(on_host(shard), size, first, "reduce_scatter", me);
        auto const of_all = place(nothing_of_all);
        comm.all_gather(s, of_all.span(), std::span<T const>(x.span())).wait();
        std::vector<T> same_of_all;
        for (int r = 0; r < size; ++r)
          same_of_all.insert(same_of_all.end(), sums.begin(), sums.end());
        check(of_all, same_of_all, "the ranks' results of one all_reduce");
        continue;
      }
    }
    check(x, conformance::combined<T>(size, count, how), "all_reduce");
    check(shard, conformance::combined<T>(size, count, how, first), "reduce_scatter");
  }
  auto const gathered = place(nothing_of_all);
  comm.all_gather(s, gathered.span(), std::span<T const>(mine.span())).wait();
  check(gathered, all, "all_gather");
  auto const exchanged = place(nothing_of_all);
  comm.all_to_all(s, exchanged.span(), std::span<T const>(for_all.span())).wait();
  check(exchanged, columns, "all_to_all");
  for (int root = 0; root < size; ++root) {
    auto const y = place(values<T>(me, count, 17));
    comm.broadcast(s, y.span(), root).wait();
    check(y, values<T>(root, count, 17), "broadcast");
  }
  if (size > 1) {
    connect_neighbours(comm);
    int const next = (me + 1) % size, previous = (me + size - 1) % size;
    auto const got = place(nothing);
    auto sent = comm.send(s, std::span<T const>(mine.span()), next, 3);
    auto received = comm.recv(other, got.span(), previous, 3);
    received.wait();
    sent.wait();
    check(got, values<T>(previous, count), "message");
  }
  check(mine, values<T>(me, count), "what was sent");
  check(for_all, values<T>(me, count * ranks), "what was divided");
  comm.barrier(s).wait();
}

/// In every element type, for counts that divide evenly and that do not.
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

/// In memory that is registered and in such that is not: of nothing, of one element, of `most`. The
/// communicator is NCCL's, which adds floats in an order of its own.
template <class Comm, class Device>
void check_registered_exchanges(Comm& comm, Device const& device, std::size_t most) {
  for (bool const registered : {false, true})
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, most}) {
      check_device_exchanges<std::uint64_t>(comm, device, count, sum_order::unspecified,
                                            registered);
      check_device_exchanges<float>(comm, device, count, sum_order::unspecified, registered);
      check_device_exchanges<parallel::bf16>(comm, device, count, sum_order::unspecified,
                                             registered);
    }
}

}  // namespace test
