// stepper_saver: writes the checkpoints of a run, in the background of its training where there is
// memory for it.
//
// A save copies this rank's slices to the host's memory and continues training; a thread writes
// them (background_save.hpp). When all ranks' files are on disk, which they agree on after each
// batch by one reduction of a number, a thread of rank 0 commits them as one checkpoint and removes
// those that are not kept; then the ranks agree on that. All exchanges are made by the rank's own
// thread. Without memory for copies, training stops while a save runs. The files are the same
// either way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <parallel/checkpoint/background_save.hpp>
#include <parallel/checkpoint/save_timer.hpp>
#include <parallel/checkpoint/stepper.hpp>
#include <parallel/comm/texts.hpp>
#include <parallel/core/reduction.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::checkpoint {

/// Copies the slices of this rank, and starts to write them.
template <class Stepper>
void start_writing(Stepper& step, background_save& writer, save_target const& target, index rank,
                   content saved) {
  auto const copy = [&](std::string const& name, std::span<index const> extents, index begin,
                        auto elements, index run) {
    writer.add(step.device(), name, extents, begin, elements, run);
  };
  for_each_saved_slice(step, copy, saved);
  writer.start(target, rank);
}

template <class Stepper, class Comm, class Exchange>
class stepper_saver {
 public:
  /// Saves into `root`. `in_background`: while training continues; it is the same on every rank and
  /// takes `bytes_to_save` bytes of the host's memory. Referenced objects must outlive the saver;
  /// `options.on_action` is called by the thread that acts on the disk.
  stepper_saver(Stepper& step, Comm& world, Exchange& exchanges, std::filesystem::path root,
                bool in_background, save_options options = {})
      : step_(step),
        world_(world),
        exchanges_(exchanges),
        root_(std::move(root)),
        options_(std::move(options)) {
    if (in_background)
      writer_.emplace(step.device(), bytes_to_save(step, options_.saved), options_.on_action);
  }

  /// Collective, between batches: saves the current state. When it returns, training may continue;
  /// the checkpoint is complete when `advance` or `complete` has made it so. Completes the previous
  /// save.
  void save(run_state const& state) {
    complete();
    save_timer::hold const hold(timer_);
    timer_.begin();
    target_ = target_of(root_, state, options_.owner);
    if (!writer_) {
      static_cast<void>(checkpoint::save(step_, world_, exchanges_, root_, state, options_));
      return end();
    }
    state_ = state;
    step_.agree_to_save(exchanges_);
    begin_save(world_, exchanges_, target_, options_.on_action);
    start_writing(step_, *writer_, target_, world_.rank(), options_.saved);
    writing_ = true;
  }

  /// Collective, after each batch: when the files of every rank are on disk, they become a
  /// checkpoint. Exchanges nothing when no save runs. Throws the error of writing this rank's files
  /// or, on rank 0, of committing the checkpoint.
  void advance() {
    if (!pending()) return;
    save_timer::hold const hold(timer_);
    bool const is_own_part_complete = publishing_ ? published() : writer_->written();
    std::int64_t all_complete = is_own_part_complete ? 1 : 0;  // the minimum over ranks
    world_.all_reduce(exchanges_, std::span<std::int64_t>(&all_complete, 1), reduction::min).wait();
    if (all_complete == 0) return;
    if (publishing_)
      end();
    else
      publish();
  }

  /// Collective: waits until the running save, if there is one, is a checkpoint.
  void complete() {
    if (!pending()) return;
    save_timer::hold const hold(timer_);
    if (!publishing_) publish();
    if (published_) published_->wait();
    world_.barrier(exchanges_).wait();
    end();
  }

  /// Whether a save runs.
  [[nodiscard]] bool pending() const { return writing_ || publishing_; }

  /// The folder of the last completed checkpoint; empty: there is none.
  [[nodiscard]] std::filesystem::path const& last() const { return last_; }

  /// The time that saving has taken so far.
  [[nodiscard]] save_costs costs() const { return timer_.costs(); }

  /// The writer that holds the copies of slices and writes them, for other saves while none runs
  /// here; null: there is no memory for copies.
  [[nodiscard]] background_save* writer() { return writer_ ? &*writer_ : nullptr; }

  /// The folder of the checkpoints, and the options of saving.
  [[nodiscard]] std::filesystem::path const& root() const { return root_; }
  [[nodiscard]] save_options const& options() const { return options_; }

 private:
  // Commits the checkpoint when all ranks' files are on disk.
  void publish() {
    auto records = gather_texts_to_root(world_, exchanges_, writer_->finish());
    writing_ = false;
    publishing_ = true;
    if (world_.rank() != 0) return;
    if (!publisher_) publisher_.emplace();
    publisher_->enqueue(
        [this, records = std::move(records)] { publish_save(target_, records, state_, options_); });
    published_ = publisher_->record();
  }

  // Whether this rank has completed its part of the commit: only rank 0 has a part.
  [[nodiscard]] bool published() const {
    if (!published_) return true;
    if (!published_->ready()) return false;
    published_->wait();
    return true;
  }

  void end() {
    publishing_ = false;
    published_.reset();
    last_ = target_.folder();
    options_.replaces.clear();  // they are removed, and later ones are of this run
    timer_.end();
  }

  Stepper& step_;
  Comm& world_;
  Exchange& exchanges_;
  std::filesystem::path root_;
  save_options options_;
  save_target target_;  // of the running save
  run_state state_;
  std::filesystem::path last_;
  save_timer timer_;
  std::optional<background_save> writer_;
  bool writing_ = false;
  /// All files are on disk, but the ranks have not agreed on the checkpoint.
  bool publishing_ = false;
  std::optional<host::event> published_;
  std::optional<host::stream>
      publisher_;  // of rank 0; last: it ends before what it uses is destroyed
};

}  // namespace parallel::checkpoint
