// The training state of a single rank: saved, loaded, and reduced to a checksum over every bit.
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

/// Saves root/ep0-ba{step}; returns when the checkpoint is on disk.
template <class Stepper>
void save_training(Stepper& stepper, std::filesystem::path const& root, index step) {
  parallel::single single_rank;
  parallel::host::stream exchanges;
  checkpoint::save(stepper, single_rank, exchanges, root, {.batches = step});
}

/// Reads the latest checkpoint of `root`; returns its number of completed steps.
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
  checkpoint::running_checksum sum;
  checkpoint::for_each_saved_slice(
      stepper, [&](std::string const& name, auto, auto, auto elements, auto) {
        sum.add(std::as_bytes(std::span(name)));
        parallel::read_on_host(stepper.device(), elements,
                               [&](auto chunk) { sum.add(std::as_bytes(chunk)); });
      });
  return sum.value();
}

}  // namespace bench
