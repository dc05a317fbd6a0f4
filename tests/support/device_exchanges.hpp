// Every exchange of a device's memory between ranks, held against a serial loop to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

/// `count` elements a rank in a collective, each result compared; throws `error` at a wrong one.
/// `registered`: in exchanged memory that is registered.
template <class T, class Comm, class Device>
void check_device_exchanges(Comm& comm, Device const& device, std::size_t count,
                            bool registered = false) {
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
  auto const check = [&](buffer<T> const& got, std::vector<T> const& expected, char const* what) {
    std::vector<T> here(got.size());
    device.download(std::span(here), std::span<T const>(got.span()));
    conformance::same(here, expected, what, me);
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
    check(x, conformance::combined<T>(size, count, how), "all_reduce");
    auto const shard = place(nothing);
    comm.reduce_scatter(s, shard.span(), std::span<T const>(for_all.span()), how).wait();
    check(shard, conformance::combined<T>(size, count, how, static_cast<std::size_t>(me) * count),
          "reduce_scatter");
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

/// In memory that is registered and in such that is not: of nothing, of one element, of `most`.
template <class Comm, class Device>
void check_registered_exchanges(Comm& comm, Device const& device, std::size_t most) {
  for (bool const registered : {false, true})
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, most}) {
      check_device_exchanges<std::uint64_t>(comm, device, count, registered);
      check_device_exchanges<float>(comm, device, count, registered);
      check_device_exchanges<parallel::bf16>(comm, device, count, registered);
    }
}

}  // namespace test
