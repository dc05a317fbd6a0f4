// ring_session: a session that trains the ring model, for layouts without tensor and context axes.
#pragma once

#include <optional>

#include <parallel/train/session.hpp>

#include "support/ring/ring_run.hpp"

namespace test {

using ring_session =
    parallel::train::session<basic_ring_model<parallel::any_communicator>, parallel::host::device,
                             parallel::any_communicator, ring_momentum>;

/// Calls f(session, groups) on every rank.
template <class F>
void on_session_ranks(layout const& config, F const& f) {
  using communicator = parallel::any_communicator;
  parallel::threads::run(config.shape().ranks(), [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::train::process_groups<communicator> groups(communicator(std::move(comm)),
                                                         config.shape(), config.level);
    basic_ring_model<communicator> model(config.model.blocks, config.sizes.width,
                                         config.sizes.vocabulary,
                                         config.model.for_single_rank<communicator>());
    ring_session session(model, device, groups, groups_of(config.optimizer, config.callbacks),
                         {.level = config.level, .pipeline = config.schedule});
    f(session, groups);
  });
}

/// The batches of one rank, without the empty microbatches that a session adds to reach
/// max_microbatches.
class ring_batches {
 public:
  ring_batches(layout const& config,
               parallel::train::process_groups<parallel::any_communicator>& groups)
      : config_(config),
        rank_(groups.world().rank()),
        count_(parallel::data::microbatches(
                   parallel::data::share_of(config.sizes.batch, groups.data_rank(),
                                            data_ranks(config)),
                   config.microbatch)
                   .size()) {}

  /// The rank's part of batch `number`, valid until the next call.
  parallel::train::rank_batch<ring_microbatch> batch(index number) {
    data_.emplace(parallel::host::device(), config_, rank_, number, count_);
    return {.microbatches = data_->batches(),
            .first_sequences = data_->first_sequences(),
            .max_microbatches = max_microbatches(config_)};
  }

 private:
  layout const& config_;
  int rank_;
  std::size_t count_;
  std::optional<step_data<parallel::host::device>> data_;
};

}  // namespace test
