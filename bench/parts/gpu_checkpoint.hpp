// The training state of a single rank, for benchmarks and tests on a GPU: saves it, loads it, and
// computes a checksum over every bit of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include <parallel/checkpoint/format/hash.hpp>
#include <parallel/checkpoint/stepper.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/device/host/stream.hpp>

namespace bench {

using parallel::index;
namespace checkpoint = parallel::checkpoint;

/// Saves the checkpoint root/ep0-ba{steps} after `steps` steps; returns when it is on disk.
template <class Stepper>
void save_training(Stepper& stepper, std::filesystem::path const& root, index steps) {
  parallel::single single_rank;
  parallel::host::stream exchanges;
  checkpoint::save(stepper, single_rank, exchanges, root, {.batches = steps});
}

/// Loads the latest checkpoint of `root`; returns the number of steps after which it was saved.
template <class Stepper>
[[nodiscard]] index load_training(Stepper& stepper, typename Stepper::exchange_stream& exchanges,
                                  std::filesystem::path const& root) {
  parallel::single single_rank;
  auto const state = checkpoint::resume(stepper, single_rank, exchanges, root);
  parallel::require(state.has_value(), root.string(), ": there is no checkpoint");
  return state->batches;
}

/// A checksum of all weights and optimizer states.
template <class Stepper>
[[nodiscard]] std::uint64_t checksum_of_training(Stepper& stepper) {
  checkpoint::running_checksum checksum;
  auto const add_slice = [&](std::string const& name, auto /*extents*/, auto /*begin*/,
                             auto elements, auto /*run*/) {
    checksum.add(std::as_bytes(std::span(name)));
    parallel::read_on_host(stepper.device(), elements,
                           [&](auto chunk) { checksum.add(std::as_bytes(chunk)); });
  };
  checkpoint::for_each_saved_slice(stepper, add_slice);
  return checksum.value();
}

}  // namespace bench
