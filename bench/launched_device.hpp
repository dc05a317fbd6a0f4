// launched_device: ranks of a benchmark, each with its device.
#pragma once

#include <optional>
#include <string>

#include <parallel/core/dtype.hpp>

#include <devices/engine.hpp>
#include <launch/launch.hpp>
#include "devices.hpp"

/// Starts `ranks` threads, or under mpirun joins its processes, and calls on each rank
/// f.operator()<T>(communicator, device, name of the device) with the element type `type`: "bf16",
/// else float. `device`: auto, cpu or cuda.
template <class F>
void launch_with_device(std::optional<int> ranks, std::string const& device,
                        std::string const& type, F const& f) {
  auto const engine = apps::make_engine();
  apps::launch({.ranks = ranks},
               [&](parallel::any_communicator& comm, apps::placement const& process) {
                 apps::device_request const request{.kind = device,
                                                    .local_rank = process.local_rank,
                                                    .cores = process.cores,
                                                    .products = &engine};
                 apps::with_device(request, [&](auto& chosen, std::string const& name) {
                   if (type == "bf16")
                     f.template operator()<parallel::bf16>(comm, chosen, name);
                   else
                     f.template operator()<float>(comm, chosen, name);
                 });
               });
}
