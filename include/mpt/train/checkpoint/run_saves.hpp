// run_saves: saves the checkpoints of a run into the folder that all nodes share and, more often,
// onto the nodes' own disks; a resumed run continues from the newest of both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mpt/config/train.hpp>
#include <mpt/train/checkpoint/run_checkpoint.hpp>
#include <mpt/train/report/run_summary.hpp>
#include <mpt/train/run_training.hpp>
#include <parallel/checkpoint/local_saver.hpp>
#include <parallel/checkpoint/promote_local.hpp>
#include <parallel/checkpoint/stepper_saver.hpp>

namespace mpt {

namespace detail {

/// The folder on this rank's node for local checkpoints, if the run saves them.
[[nodiscard]] std::optional<checkpoint::local_folder> own_local_folder(
    checkpoint_config const& config, run_hooks const& hooks, parallel::any_communicator& comm);

}  // namespace detail

/// Collective, before a run looks for the checkpoint from which it resumes: copies the checkpoint
/// on the nodes' own disks into save_folder, if the run resumes and it is newer than those in
/// save_folder. Returns a note for the user on rank 0, or "".
template <class Exchange>
[[nodiscard]] std::string promote_local_checkpoint(parallel::any_communicator& comm,
                                                   Exchange& exchanges,
                                                   checkpoint_config const& config,
                                                   run_hooks const& hooks) {
  if (!config.autoresume) return {};
  std::string note;
  if (auto const folder = detail::own_local_folder(config, hooks, comm))
    note = checkpoint::promote_local(comm, exchanges, config.save_folder, hooks.owner, *folder,
                                     hooks.on_save);
  else if (comm.rank() == 0)
    note = checkpoint::note_on_local_checkpoint(config.save_folder);
  return note.empty() ? note : "note: " + note;
}

/// Saves the state of a `Session`.
template <class Session>
class run_saves {
 public:
  /// Collective. All arguments but `hooks` must outlive it. `begun_from`: as in save_options_of.
  /// `in_background`: training continues while a save is written.
  run_saves(Session& session, parallel::any_communicator& comm, host::stream& exchanges,
            checkpoint_config const& config, run_hooks const& hooks, std::string const& begun_from,
            bool in_background)
      : config_(config),
        in_background_(in_background),
        shared_(session.stepper(), comm, exchanges, config.save_folder, in_background,
                save_options_of(config, hooks.on_save, hooks.owner, begun_from)),
        bytes_(checkpoint::bytes_to_save(session.stepper(), shared_.options().saved)) {
    if (auto folder = detail::own_local_folder(config, hooks, comm)) {
      is_single_node_ = folder->nodes.nodes() == 1;
      local_.emplace(shared_, session.stepper(), comm, exchanges, std::move(*folder));
    }
  }

  /// Notes for the user before the first save.
  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> out{note_on_saves(in_background_, bytes_)};
    if (local_ && is_single_node_)
      out.emplace_back(
          "note: local_save_folder: all ranks are on one node, so no other has a copy of what is "
          "saved there");
    return out;
  }

  /// Whether a save onto the nodes' disks is due after this batch.
  [[nodiscard]] bool local_due(std::int64_t batch, training_clock const& clock) const {
    return local_ && is_due(config_.local_save_interval, batch, clock);
  }

  /// Collective, between batches: saves into save_folder, after completing a local save under way;
  /// or onto the nodes' disks, unless a save is under way.
  void save(checkpoint::run_state const& state, bool into_save_folder) {
    if (!into_save_folder) return static_cast<void>(local_->save(state));
    if (local_) local_->complete();
    shared_.save(state);
  }

  /// Collective, after each batch, as in stepper_saver.
  void advance() {
    shared_.advance();
    if (local_) local_->advance();
  }
  void complete() {
    shared_.complete();
    if (local_) local_->complete();
  }

  /// Seconds for which saving has stopped training so far.
  [[nodiscard]] double held_up_seconds() const {
    return shared_.costs().held_up_seconds + (local_ ? local_->costs().held_up_seconds : 0.0);
  }

  /// Fills in the last checkpoint and the costs of the saves.
  void summarize(run_summary& summary) const {
    summary.saves = shared_.costs();
    if (local_) summary.local_saves = local_->costs();
    if (summary.saves.saves > 0) summary.checkpoint = shared_.last().string();
  }

 private:
  using stepper = typename Session::stepper_type;
  using shared_saver = checkpoint::stepper_saver<stepper, parallel::any_communicator, host::stream>;

  checkpoint_config const& config_;
  bool in_background_;
  bool is_single_node_ = false;
  shared_saver shared_;
  std::size_t bytes_;
  std::optional<checkpoint::local_saver<stepper, parallel::any_communicator, host::stream>> local_;
};

}  // namespace mpt
