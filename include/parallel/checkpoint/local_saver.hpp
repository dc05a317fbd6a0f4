// local_saver: saves checkpoints on the nodes' own disks, between those that a run saves into the
// shared folder.
//
// Every rank writes its files to its node's disk and sends a copy to the next node (node_map,
// neighbour_copies), so there are two of each file, and one node may be lost. When all of them are
// on disk, which the ranks agree on after each batch like those of stepper_saver, the first rank of
// every node gives the folder its name, with the manifest of the whole checkpoint; when all have
// done so, rank 0 records it in the shared folder (local_pointer), and only then the previous one
// is removed. So a run that is killed at any point leaves one of the two complete. How a run
// continues from it: promote_local.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <parallel/checkpoint/local/local_pointer.hpp>
#include <parallel/checkpoint/local/neighbour_copies.hpp>
#include <parallel/checkpoint/local/node_map.hpp>
#include <parallel/checkpoint/stepper_saver.hpp>
#include <parallel/comm/coloring.hpp>

namespace parallel::checkpoint {

template <class Stepper, class Comm, class Exchange>
class local_saver {
 public:
  using shared_saver = stepper_saver<Stepper, Comm, Exchange>;

  /// Collective. Saves as `shared` does, in its memory; referenced objects must outlive the saver.
  local_saver(shared_saver& shared, Stepper& step, Comm& world, Exchange& exchanges,
              local_folder location)
      : shared_(shared),
        step_(step),
        world_(world),
        exchanges_(exchanges),
        location_(std::move(location)) {
    if (location_.nodes.nodes() > 1)
      copies_.emplace(world.split(coloring::single_color(), "copies"), location_.nodes);
  }

  /// Collective, between batches: saves the current state, in the background of training where
  /// there is memory for copies. While a save runs, local or shared, it does nothing and returns
  /// false: it never waits for one.
  bool save(run_state const& state) {
    if (pending() || shared_.pending()) return false;
    timer_.begin();
    begin(state);
    if (shared_.writer() == nullptr) complete();
    return true;
  }

  /// Collective, after each batch: enters the next stage when all ranks have completed the last
  /// one. Exchanges nothing when no save runs. Throws the error of acting on a disk.
  void advance() {
    if (!pending()) return;
    save_timer::hold const hold(timer_);
    std::int64_t all_done = is_done() ? 1 : 0;  // the minimum over ranks
    world_.all_reduce(exchanges_, std::span<std::int64_t>(&all_done, 1), reduction::min).wait();
    if (all_done == 0) return;
    finish();
    next_stage();
  }

  /// Collective: waits until the running save, if there is one, is a checkpoint.
  void complete() {
    if (!pending()) return;
    save_timer::hold const hold(timer_);
    while (pending()) {
      finish();
      world_.barrier(exchanges_).wait();
      next_stage();
    }
  }

  /// Whether a save runs.
  [[nodiscard]] bool pending() const { return stage_ != stage::none; }

  /// The time that saving has taken so far.
  [[nodiscard]] save_costs costs() const { return timer_.costs(); }

 private:
  enum class stage : std::uint8_t { none, writing, copying, naming, pointing };

  [[nodiscard]] bool is_first() const { return location_.nodes.is_first(world_.rank()); }

  void begin(run_state const& state) {
    save_timer::hold const hold(timer_);
    target_ = target_of(location_.folder, state, shared_.options().owner);
    state_ = state;
    step_.agree_to_save(exchanges_);
    if (acted_) acted_->wait();  // the predecessor of the last save is removed
    if (is_first()) prepare_save(target_, location_.on_action);
    world_.barrier(exchanges_).wait();
    stage_ = stage::writing;
    auto const& options = shared_.options();
    if (auto* const writer = shared_.writer())
      start_writing(step_, *writer, target_, world_.rank(), options.saved);
    else
      records_ = write_slices(step_, target_, world_.rank(), options);
  }

  // The files that a rank's records name.
  [[nodiscard]] file_sizes files_of(std::string const& records) const {
    slice_set set;
    auto const location = target_.temporary().native();
    add_slices(set, parse_json(records, location), location);
    return set.files;
  }

  // Whether this rank has completed its stage; does not block.
  [[nodiscard]] bool is_done() {
    if (stage_ == stage::writing) return !records_.empty() || shared_.writer()->written();
    if (stage_ == stage::copying) return copies_->is_done();
    if (acted_ && !acted_->ready()) return false;
    finish();
    return true;
  }

  // Waits until this rank has completed its stage.
  void finish() {
    if (stage_ == stage::writing) {
      if (records_.empty()) records_ = shared_.writer()->finish();
    } else if (stage_ == stage::copying) {
      copies_->finish();
    } else if (acted_) {
      acted_->wait();
    }
  }

  // Enters the next stage: all ranks have completed theirs.
  void next_stage() {
    if (stage_ == stage::writing && copies_) {
      stage_ = stage::copying;
      copies_->start(target_.temporary(), files_of(records_), location_.on_action);
    } else if (stage_ <= stage::copying) {
      stage_ = stage::naming;
      name();
    } else if (stage_ == stage::naming) {
      stage_ = stage::pointing;
      if (world_.rank() == 0)
        act([this] {
          write_local_pointer(shared_.root(), pointer_, target_.token, shared_.options().on_action);
        });
    } else {
      stage_ = stage::none;
      timer_.end();
      if (is_first()) act([this, id = target_.id] { remove_all_but(id); });
    }
  }

  void remove_all_but(checkpoint_id last) const {
    remove_folders(
        location_.folder, [&](checkpoint_id other) { return other != last; }, location_.on_action);
  }

  // Gives every node's folder its name.
  void name() {
    auto const records_of_ranks =
        gather_texts_to_root(world_, exchanges_, std::exchange(records_, {}));
    std::string text;
    if (world_.rank() == 0)
      text = format_manifest(manifest_of(target_, records_of_ranks, detail::to_string(state_)),
                             target_.folder().native());
    text = broadcast_text(world_, exchanges_, std::move(text));
    pointer_ = {target_.id, target_.generation, checksum(text)};
    if (is_first())
      act([this, text = std::move(text)] {
        write_text_file(target_.temporary() / manifest_name, text, location_.on_action);
        publish_folder(target_.temporary(), target_.folder(), if_exists::replace,
                       location_.on_action);
      });
  }

  // Runs an action on this rank's own thread.
  template <class Action>
  void act(Action action) {
    if (!actor_) actor_.emplace();
    actor_->enqueue(std::move(action));
    acted_ = actor_->record();
  }

  shared_saver& shared_;
  Stepper& step_;
  Comm& world_;
  Exchange& exchanges_;
  local_folder location_;
  save_timer timer_;
  save_target target_;  // of the running save, on this rank's node
  run_state state_;
  std::string records_;  // of this rank's files, once they are written
  local_pointer pointer_;
  stage stage_ = stage::none;
  std::optional<host::event> acted_;
  std::optional<neighbour_copies<Comm>> copies_;  // none: there is one node
  std::optional<host::stream> actor_;             // last: it ends before what it uses is destroyed
};

}  // namespace parallel::checkpoint
