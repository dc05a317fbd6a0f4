// Runs a tiny model on memory that the host cannot reach.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "mpt/train/tiny_run.hpp"
#include "support/devices/guarded_device.hpp"

namespace tiny_run {

/// Trains on guarded devices; guarded::memory describes `after_operation`.
template <class T>
mpt::run_summary train_guarded(train_config const& config, int ranks,
                               decltype(guarded::memory::after_operation) after_operation = {}) {
  auto const memory = std::make_shared<guarded::memory>(std::size_t{512} << 20);
  memory->after_operation = std::move(after_operation);
  return train_on<T>(
      config, ranks, [&] { return guarded::device(memory); }, [](auto const&, auto const&) {});
}

}  // namespace tiny_run
