// device_request: the device on which a rank computes, as a program requests it.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <parallel/device/host/device.hpp>

#include <devices/cores.hpp>
#include <devices/engine.hpp>

namespace apps {

struct device_request {
  std::string kind = "auto";         // auto: a GPU when there is one; cpu; cuda; kokkos
  int local_rank = 0;                // among the ranks of this machine, which are dealt to its GPUs
  std::vector<int> cores = {};       // of this rank
  int threads = 0;                   // on the CPU; 0: OMP_NUM_THREADS, else one per core
  bool deterministic = false;        // the same bits in every run, also if a GPU gets slower by it
  bool graphs = false;               // run steps as graphs on a GPU
  engine const* products = nullptr;  // of the CPU; must outlive the device
};

/// Calls f(device, name of the device) with the CPU.
template <class F>
decltype(auto) with_cpu(device_request const& request, F&& f) {
  int const requested = request.threads > 0 ? 0 : threads_of_environment();
  int const threads = request.threads > 0 ? request.threads
                      : requested > 0     ? requested
                                      : std::max<int>(1, static_cast<int>(request.cores.size()));
  parallel::host::device device(
      {.threads = threads, .cores = request.cores, .engine = request.products->products.get()});
  return f(device, fmt::format("{} threads{}, {}", threads,
                               requested > 0 ? " (OMP_NUM_THREADS)" : "", request.products->name));
}

}  // namespace apps
