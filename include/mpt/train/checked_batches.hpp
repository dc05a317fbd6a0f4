// checked_batches: batches of a run in which ranks check each other (corruption_check): what
// another data rank has in a batch is read once more, by its buddy.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/train.hpp>
#include <mpt/train/device_sequences.hpp>
#include <mpt/train/run_data.hpp>
#include <mpt/train/run_mesh.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/ops/host/matrix_unit.hpp>
#include <parallel/ops/host/simd.hpp>
#include <parallel/train/corruption_check.hpp>

namespace mpt {

template <class Device, class Comm, class Stepper>
class checked_batches {
 public:
  using check_type = train::corruption_check<Stepper>;
  using result_type = decltype(typename check_type::result_type{}.step);
  using stream = typename Stepper::stream;
  using exchange_stream = typename Stepper::exchange_stream;

  /// Everything is borrowed; `microbatch`: sequences of one.
  /// Collective: throws on all ranks where they compute in different ways, so that their bits would
  /// differ without a fault.
  checked_batches(train_config const& config, run_data const& data, run_mesh<Device, Comm>& mesh,
                  Device const& device, Stepper& step, index microbatch, stream& compute)
      : config_(config),
        data_(data),
        mesh_(mesh),
        microbatch_(microbatch),
        check_(step),
        read_(device) {
    require_alike(compute);
  }

  [[nodiscard]] bool due(std::int64_t batch, training_clock const& clock) const {
    return is_due(config_.corruption_check.interval, batch, clock);
  }

  /// Batch `where.step`, of which this rank has `parts`, as stepper::step makes it. Where a rank
  /// was wrong once it is computed again, which `control` says; else, or where it is to stop or
  /// goes wrong every time, throws `corrupted` on all ranks.
  result_type step(stream& compute, exchange_stream& exchanges, arena& memory,
                   std::span<microbatch const> parts, std::span<index const> first,
                   parallel::position where, double factor, run_control const& control) {
    constexpr int most_times = 3;
    for (int time = 1;; ++time) {
      auto done = check_.step(compute, exchanges, memory, parts, first, where, factor,
                              [&](int rank) { return work_of(rank, where.step); });
      if (done.faults.empty()) return std::move(done.step);
      auto const text = parallel::concat("batch ", std::int64_t{where.step} + 1, ": ",
                                         check_.describe(exchanges, done.faults));
      bool const repeats = config_.corruption_check.on_transient == transient_policy::repeat;
      if (!done.may_repeat() || !repeats || time == most_times)
        parallel::fail<parallel::corrupted>(
            text, "; nothing was updated: take the machine out, and go on from a checkpoint");
      control.say(text + "; it is computed again");
    }
  }

 private:
  /// What data rank `rank` has first in a batch; valid until the next call.
  [[nodiscard]] typename check_type::work work_of(int rank, std::int64_t batch) {
    auto& reader = readers_[rank];
    if (reader == nullptr) reader = data_.batches(config_, rank, mesh_.data_ranks());
    read_.assign(mesh_.local_rows(shared_batch(*reader, batch, mesh_)));
    auto const all = read_.microbatches(microbatch_, reader->share().begin, 1);
    return {all.first.front(), all.second.front()};
  }

  void require_alike(stream& compute) {
    std::string own;
    if constexpr (requires { compute.threads(); })
      own = parallel::concat(compute.threads(), " threads of ",
                             parallel::host::simd::native_lanes(), " lanes",
                             parallel::host::has_matrix_unit() ? " with a matrix unit" : "");
    if constexpr (requires { compute.deterministic(); })
      require(compute.deterministic(),
              "corruption_check: on a GPU it needs deterministic=true, without which two "
              "computations of the same may differ in their last bits");
    auto const all = parallel::gather_texts(mesh_.control(), mesh_.control_stream(), own);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      require(all[rank] == all[0], "corruption_check: rank ", rank, " computes with ", all[rank],
              ", but rank 0 with ", all[0],
              ", so their bits may differ without a fault; make them alike (threads=N), or leave "
              "corruption_check out");
  }

  train_config const& config_;
  run_data const& data_;
  run_mesh<Device, Comm>& mesh_;
  index microbatch_;
  check_type check_;
  std::map<int, std::unique_ptr<run_batches>> readers_;  // by data rank
  device_sequences<Device> read_;
};

}  // namespace mpt
