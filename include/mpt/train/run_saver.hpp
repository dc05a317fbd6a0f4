// run_saver: the checkpoints that a run writes, behind its training where there is memory for it.
//
// A save copies this rank's slices to the host's memory and goes on training; a thread writes them
// (parallel/checkpoint/background_save.hpp). When all ranks' files are on disk, which they agree on
// after each batch by one reduction of a number, they make one checkpoint of them. All exchanges
// are those of the rank's own thread. Without memory for copies, training stops for as long as a
// save takes. The files are the same either way.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <mpt/config/train.hpp>
#include <mpt/train/run_checkpoint.hpp>
#include <parallel/checkpoint/background_save.hpp>
#include <parallel/comm/any_communicator.hpp>

namespace mpt {

/// Bytes of the slices that this rank saves.
template <class Stepper>
[[nodiscard]] std::size_t bytes_to_save(Stepper& step) {
  std::size_t bytes = 0;
  for_each_saved_slice(
      step, [&](auto const&, auto, auto, auto elements, auto) { bytes += elements.size_bytes(); });
  return bytes;
}

template <class Stepper>
class run_saver {
 public:
  /// `behind`: behind training; it is the same on every rank and takes `bytes_to_save` bytes of the
  /// host's memory. What is referred to must outlive it. `on_step` is called before each action on
  /// the disk by the thread that does it.
  run_saver(Stepper& step, parallel::any_communicator& comm, host::stream& traffic,
            train_config const& config, bool behind, parallel::step_hook on_step = {})
      : step_(step), comm_(comm), traffic_(traffic), config_(config), on_step_(std::move(on_step)) {
    if (behind) writer_.emplace(step.device(), bytes_to_save(step), on_step_);
  }

  /// Collective, between batches: saves what is there now. When it returns, training may go on; the
  /// checkpoint appears when `advance` or `complete` says so. Completes the save before it.
  void save(run_state const& state) {
    complete();
    timed const now(*this);
    if (!writer_) {
      last_ = save_run(step_, comm_, traffic_, config_, state, on_step_);
      return;
    }
    target_ = target_of(config_, state);
    text_ = text_of(config_, state);
    prepare_checkpoint(comm_, traffic_, target_, on_step_);
    for_each_saved_slice(step_, [&](std::string const& name, std::span<index const> extents,
                                    index begin, auto elements, index run) {
      writer_->add(step_.device(), name, extents, begin, elements, run);
    });
    writer_->start(target_, comm_.rank());
  }

  /// Collective, after each batch: when the files of every rank are on disk, they become a
  /// checkpoint. Exchanges nothing when there is no save under way. Throws what writing this rank's
  /// files failed with.
  void advance() {
    if (!pending()) return;
    timed const now(*this);
    std::int64_t written = writer_->written() ? 1 : 0;  // of every rank: the least
    comm_.all_reduce(traffic_, std::span<std::int64_t>(&written, 1), parallel::reduction::min)
        .wait();
    if (written == 1) commit();
  }

  /// Collective: waits for the save under way, if there is one, and makes it a checkpoint.
  void complete() {
    if (!pending()) return;
    timed const now(*this);
    commit();
  }

  /// Whether there is a save under way.
  [[nodiscard]] bool pending() const { return writer_ && writer_->pending(); }

  /// Folder of the last checkpoint that was completed; empty: none was.
  [[nodiscard]] std::filesystem::path const& last() const { return last_; }

  /// For how long the caller has been held up so far.
  [[nodiscard]] double held_up_seconds() const {
    return std::chrono::duration<double>(held_up_).count();
  }

 private:
  using clock = std::chrono::steady_clock;

  struct timed {
    explicit timed(run_saver& of) : of_(of) {}
    ~timed() { of_.held_up_ += clock::now() - begin_; }
    timed(timed const&) = delete;
    timed& operator=(timed const&) = delete;

   private:
    run_saver& of_;
    clock::time_point begin_ = clock::now();
  };

  void commit() {
    commit_checkpoint(comm_, traffic_, config_.checkpoint, target_, writer_->finish(), text_,
                      on_step_);
    last_ = target_.folder();
  }

  Stepper& step_;
  parallel::any_communicator& comm_;
  host::stream& traffic_;
  train_config const& config_;
  parallel::step_hook on_step_;
  checkpoint::save_target target_;  // of the save under way
  std::string text_;
  std::filesystem::path last_;
  clock::duration held_up_{};
  std::optional<checkpoint::background_save> writer_;
};

}  // namespace mpt
