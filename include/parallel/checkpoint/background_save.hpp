// background_save: copies one rank's slices of a checkpoint, and writes them on its own thread
// while the program continues and changes their originals.
//
//   rank 0:   prepare_save(target)             as in save.hpp
//             barrier
//   all:      saving.add(device, ...)          for each slice: returns when it is copied
//             saving.start(target, rank)       the thread writes, hashes and flushes
//             ... until saving.written() on every rank, which the ranks agree on ...
//             records = saving.finish()
//             gather the records at rank 0
//   rank 0:   commit(target, records, state)
//
// The thread takes part in no exchange and writes only this rank's files, so a rank that is killed
// or stopped leaves the same files as a rank that is killed in a save in the foreground. Cost: the
// memory of the copies, for as long as the object lives, and the time of copying.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <parallel/checkpoint/rank_writer.hpp>
#include <parallel/device/buffer.hpp>
#include <parallel/device/host/stream.hpp>

namespace parallel::checkpoint {

class background_save {
 public:
  /// Room for slices of `bytes` bytes together, in memory of the host that `device` copies to at
  /// the full speed of its bus. `on_action` is called by the thread that writes.
  template <class Device>
  background_save(Device const& device, std::size_t bytes, action_hook on_action = {})
      : memory_(device.template allocate_shared<std::byte>(bytes)),
        on_action_(std::move(on_action)) {}

  background_save(background_save&&) = delete;

  /// Gives up the write, after the current slice.
  ~background_save() { given_up_ = true; }

  /// Copies elements of `device`'s memory, which nothing may be writing, to be written as by
  /// rank_writer::add. Blocks until they are copied. Not between `start` and `finish`.
  template <class Device, class T>
  void add(Device const& device, std::string name, std::span<index const> extents, index begin,
           std::span<T> elements, index run = 0) {
    auto const from = std::as_bytes(elements);
    require(!pending() && from.size() <= memory_.size() - used_, "checkpoint slice of \"", name,
            "\": ", from.size(), " bytes do not fit ", memory_.size(), " bytes of which ", used_,
            " are in use");
    auto const copy = memory_.span().subspan(used_, from.size());
    device.download(copy, from);
    used_ += from.size();
    slices_.push_back({std::move(name),
                       element_type_of(dtype_of<std::remove_const_t<T>>),
                       {extents.begin(), extents.end()},
                       begin,
                       run,
                       copy});
  }

  /// Begins to write the slices added so far as the files of `rank`.
  void start(save_target const& target, index rank) {
    require(!pending(), "a rank writes one checkpoint at a time");
    writer_.enqueue([this, target, rank] { write(target, rank); });
    written_ = writer_.record();
  }

  /// Whether there was a `start` without a `finish`.
  [[nodiscard]] bool pending() const { return written_.has_value(); }

  /// Whether the files are complete and on disk; does not block. Throws the error of writing, after
  /// which there is no further save.
  [[nodiscard]] bool written() const {
    if (!written_ || !written_->ready()) return false;
    written_->wait();
    return true;
  }

  /// Waits until the files are on disk and forgets the slices. Returns the records that `commit`
  /// wants. Throws what writing failed with.
  [[nodiscard]] std::string finish() {
    require(pending(), "no save was started");
    written_->wait();
    written_.reset();
    slices_.clear();
    used_ = 0;
    return std::move(records_);
  }

 private:
  struct slice {
    std::string name;
    element_type type;
    std::vector<index> extents;
    index begin;
    index run;
    std::span<std::byte const> bytes;
  };

  void write(save_target const& target, index rank) {
    rank_writer writer(target, rank, {.on_action = [this](std::string_view name) {
                         require(!given_up_, "the save was given up");
                         files::announce(on_action_, name);
                       }});
    for (auto const& s : slices_) writer.add(s.name, s.type, s.extents, s.begin, s.bytes, s.run);
    records_ = writer.finish();
  }

  buffer<std::byte> memory_;
  std::size_t used_ = 0;
  // the caller's until `start`, the thread's until the event
  std::vector<slice> slices_;
  std::string records_;
  action_hook on_action_;
  std::atomic<bool> given_up_ = false;
  std::optional<host::event> written_;
  host::stream writer_;  // last: it ends before what it uses is destroyed
};

}  // namespace parallel::checkpoint
