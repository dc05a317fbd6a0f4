// run_context: what all parts of a run on one rank share: its configuration, ranks, data and clock,
// and how far it has come.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <mpt/callbacks/run_callbacks.hpp>
#include <mpt/config/train.hpp>
#include <mpt/train/data/run_data.hpp>
#include <mpt/train/report/run_summary.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/device/host/stream.hpp>

namespace mpt {

struct run_context {
  /// `say` prints a line for the user.
  run_context(train_config const& settings, any_communicator& ranks, host::stream& stream,
              std::unique_ptr<run_batches> batches, std::function<void(std::string const&)> say)
      : config(settings),
        comm(ranks),
        host(stream),
        data(std::move(batches)),
        clock(clock_of(config.data, config.run, data->batches_per_epoch())),
        callbacks(make_callbacks(config, clock)),
        control(std::move(say)) {}

  train_config const& config;
  any_communicator& comm;
  host::stream& host;  ///< stream of the exchanges over comm
  std::unique_ptr<run_batches> data;
  training_clock clock;
  run_callbacks callbacks;
  run_control control;
  run_summary summary = {};
  std::int64_t batch = 0;  ///< finished batches
};

}  // namespace mpt
