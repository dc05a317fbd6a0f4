// stepper_saver: the checkpoints that a run writes, behind its training where there is memory for
// it.
//
// A save copies this rank's slices to the host's memory and goes on training; a thread writes them
// (background_save.hpp). When all ranks' files are on disk, which they agree on after each batch by
// one reduction of a number, a thread of rank 0 makes one checkpoint of them and removes those that
// are not kept; when it has, they agree on that. All exchanges are those of the rank's own thread.
// Without memory for copies, training stops for as long as a save takes. The files are the same
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

/// Copies the slices of this rank, and begins to write them.
template <class Stepper>
void start_writing(Stepper& step, background_save& writer, save_target const& target, index rank,
                   content what) {
  auto const copy = [&](std::string const& name, std::span<index const> extents, index begin,
                        auto elements, index run) {
    writer.add(step.device(), name, extents, begin, elements, run);
  };
  for_each_saved_slice(step, copy, what);
  writer.start(target, rank);
}

template <class Stepper, class Comm, class Exchange>
class stepper_saver {
 public:
  /// Saves into `root`. `behind`: behind training; it is the same on every rank and takes
  /// `bytes_to_save` bytes of the host's memory. What is referred to must outlive it;
  /// `options.on_step` is called by the thread that acts on the disk.
  stepper_saver(Stepper& step, Comm& world, Exchange& exchanges, std::filesystem::path root,
                bool behind, save_options options = {})
      : step_(step),
        world_(world),
        exchanges_(exchanges),
        root_(std::move(root)),
        options_(std::move(options)) {
    if (behind)
      writer_.emplace(step.device(), bytes_to_save(step, options_.what), options_.on_step);
  }

  /// Collective, between batches: saves what is there now. When it returns, training may go on; the
  /// checkpoint appears when `advance` or `complete` says so. Completes the save before it.
  void save(run_state const& state) {
    complete();
    save_timer::hold const now(timer_);
    timer_.begin();
    target_ = target_of(root_, state, options_.owner);
    if (!writer_) {
      static_cast<void>(checkpoint::save(step_, world_, exchanges_, root_, state, options_));
      return end();
    }
    state_ = state;
    step_.agree_to_save(exchanges_);
    begin_save(world_, exchanges_, target_, options_.on_step);
    start_writing(step_, *writer_, target_, world_.rank(), options_.what);
    writing_ = true;
  }

  /// Collective, after each batch: when the files of every rank are on disk, they become a
  /// checkpoint. Exchanges nothing when there is no save under way. Throws what writing this rank's
  /// files failed with, or on rank 0 making a checkpoint of all.
  void advance() {
    if (!pending()) return;
    save_timer::hold const now(timer_);
    bool const mine = publishing_ ? published() : writer_->written();
    std::int64_t done = mine ? 1 : 0;  // of every rank: the least
    world_.all_reduce(exchanges_, std::span<std::int64_t>(&done, 1), reduction::min).wait();
    if (done == 0) return;
    if (publishing_)
      end();
    else
      publish();
  }

  /// Collective: waits until the save under way, if there is one, is a checkpoint.
  void complete() {
    if (!pending()) return;
    save_timer::hold const now(timer_);
    if (!publishing_) publish();
    if (published_) published_->wait();
    world_.barrier(exchanges_).wait();
    end();
  }

  /// Whether there is a save under way.
  [[nodiscard]] bool pending() const { return writing_ || publishing_; }

  /// Folder of the last checkpoint that was completed; empty: none was.
  [[nodiscard]] std::filesystem::path const& last() const { return last_; }

  /// What saving has cost so far.
  [[nodiscard]] save_costs costs() const { return timer_.costs(); }

  /// What it copies slices into and writes them by, for other saves while none is under way here;
  /// none: there is no memory for copies.
  [[nodiscard]] background_save* writer() { return writer_ ? &*writer_ : nullptr; }

  /// Where it saves, and how.
  [[nodiscard]] std::filesystem::path const& root() const { return root_; }
  [[nodiscard]] save_options const& options() const { return options_; }

 private:
  // All ranks' files are on disk.
  void publish() {
    auto records = texts_at_root(world_, exchanges_, writer_->finish());
    writing_ = false;
    publishing_ = true;
    if (world_.rank() != 0) return;
    if (!publisher_) publisher_.emplace();
    publisher_->enqueue(
        [this, records = std::move(records)] { publish_save(target_, records, state_, options_); });
    published_ = publisher_->record();
  }

  // Whether this rank has done its part of it: all but rank 0 have none.
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
    options_.replaces.clear();  // they are gone, and later ones are of this run
    timer_.end();
  }

  Stepper& step_;
  Comm& world_;
  Exchange& exchanges_;
  std::filesystem::path root_;
  save_options options_;
  save_target target_;  // of the save under way
  run_state state_;
  std::filesystem::path last_;
  save_timer timer_;
  std::optional<background_save> writer_;
  bool writing_ = false;
  bool publishing_ = false;  // all files are on disk, the checkpoint is not yet agreed on
  std::optional<host::event> published_;
  std::optional<host::stream> publisher_;  // of rank 0; last: it ends before what it uses goes
};

}  // namespace parallel::checkpoint
