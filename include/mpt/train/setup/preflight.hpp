// The checks of preflight=true before a run: measures the ranks' network and their devices, and
// describes the consequences for the run.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/train/setup/matmul_rate.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/network/network_check.hpp>
#include <parallel/comm/network/network_ring.hpp>

namespace mpt {

/// Times matrix products of T on all devices at once, and exchanges of device memory by all ranks
/// over `exchanges`; takes about a second. `comm` connects the same ranks or is the same
/// communicator; `machine` is the name of this rank's machine; `interface` the network interface
/// between machines, where it is known. Collective.
template <class T, class Device, parallel::communicator Exchanges>
[[nodiscard]] parallel::network_measurements preflight(Device& device,
                                                       parallel::any_communicator& comm,
                                                       Exchanges& exchanges,
                                                       std::string const& machine,
                                                       std::string const& interface = {}) {
  typename Device::stream_type stream(device.compute_options());
  parallel::host::stream host_stream;
  comm.barrier(host_stream).wait();
  double const work = measure_matmul_rate<T>(device, stream, 0.2);
  return parallel::check_network(device, comm, exchanges, machine, work, interface);
}

namespace detail {

/// Text such as "4.81 MB/s": three digits and the unit that fits.
[[nodiscard]] std::string rate_text(double bytes_per_second);

}  // namespace detail

/// Lines for the user: the rates first, then a line for each problem.
[[nodiscard]] std::vector<std::string> describe(parallel::network_measurements const& m);

/// The rates in bytes per second, null where they were not measured, and the lines for the user.
[[nodiscard]] nlohmann::ordered_json to_json(parallel::network_measurements const& m);

}  // namespace mpt
