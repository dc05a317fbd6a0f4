// checked_batches: batches of a run in which ranks check each other (corruption_check): each data
// rank also reads and computes the first microbatch of another data rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <mpt/callbacks/callback.hpp>
#include <mpt/config/train.hpp>
#include <mpt/model/device_sequences.hpp>
#include <mpt/train/data/run_data.hpp>
#include <mpt/train/setup/run_mesh.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/ops/host/matrix_unit.hpp>
#include <parallel/ops/host/simd.hpp>
#include <parallel/train/checks/corruption_check.hpp>

namespace mpt {

template <class Device, class Comm, class Session>
class checked_batches {
 public:
  using check_type = train::corruption_check<Session>;
  using result_type = decltype(typename check_type::result_type{}.step);

  /// Returns a data rank's batches.
  using batch_opener = std::function<std::unique_ptr<run_batches>(int data_rank)>;

  /// `mesh` and `session` must outlive the object; `microbatch`: sequences per microbatch.
  /// Collective: throws on all ranks if they compute in different ways, so that their bits would
  /// differ without a fault.
  checked_batches(corruption_check_config const& config, batch_opener open,
                  run_mesh<Device, Comm>& mesh, Session& session, index microbatch)
      : config_(config),
        open_(std::move(open)),
        mesh_(mesh),
        microbatch_(microbatch),
        check_(session),
        read_(session.device()) {
    require_same_capabilities(session.compute());
  }

  [[nodiscard]] bool due(std::int64_t batch, training_clock const& clock) const {
    return is_due(config_.interval, batch, clock);
  }

  /// Trains batch `request.position.step` as session::step does. After a
  /// transient fault the batch is computed again, and `control` says so. Throws `corrupted` on all
  /// ranks if a fault is permanent, recurs every time, or if the run is to stop at any fault.
  result_type step(train::step_request<microbatch> const& request, run_control const& control) {
    constexpr int max_attempts = 3;
    std::int64_t const batch = request.position.step;
    for (int attempt = 1;; ++attempt) {
      auto result = check_.step(request, [&](int rank) { return work_of_rank(rank, batch); });
      if (result.faults.empty()) return std::move(result.step);
      auto const text = parallel::concat("batch ", batch + 1, ": ", check_.describe(result.faults));
      bool const repeats = config_.on_transient == transient_policy::repeat;
      if (!result.may_repeat() || !repeats || attempt == max_attempts)
        parallel::fail<parallel::corrupted>(
            text, "; nothing was updated: take the machine out, and go on from a checkpoint");
      control.say(text + "; it is computed again");
    }
  }

 private:
  /// The first microbatch of data rank `rank` in a batch; valid until the next call.
  [[nodiscard]] typename check_type::work work_of_rank(int rank, std::int64_t batch) {
    auto& reader = readers_[rank];
    if (reader == nullptr) reader = open_(rank);
    read_.assign(mesh_.local_rows(shared_batch(*reader, batch, mesh_)));
    auto const microbatches = read_.microbatches(microbatch_, reader->share().begin, 1);
    return {microbatches.first.front(), microbatches.second.front()};
  }

  void require_same_capabilities(typename Session::stream& compute) {
    std::string capabilities;
    if constexpr (requires { compute.threads(); })
      capabilities = parallel::concat(
          compute.threads(), " threads of ", parallel::host::simd::native_lanes(), " lanes",
          parallel::host::has_matrix_unit() ? " with a matrix unit" : "");
    if constexpr (requires { compute.deterministic(); })
      require(compute.deterministic(),
              "corruption_check: on a GPU it needs deterministic=true, without which two "
              "computations of the same may differ in their last bits");
    auto const ranks_text =
        parallel::gather_texts(mesh_.control(), mesh_.control_stream(), capabilities);
    for (std::size_t rank = 0; rank < ranks_text.size(); ++rank)
      require(ranks_text[rank] == ranks_text[0], "corruption_check: rank ", rank, " computes with ",
              ranks_text[rank], ", but rank 0 with ", ranks_text[0],
              ", so their bits may differ without a fault; make them alike (threads=N), or leave "
              "corruption_check out");
  }

  corruption_check_config config_;
  batch_opener open_;
  run_mesh<Device, Comm>& mesh_;
  index microbatch_;
  check_type check_;
  std::map<int, std::unique_ptr<run_batches>> readers_;  // by data rank
  device_sequences<Device> read_;
};

}  // namespace mpt
