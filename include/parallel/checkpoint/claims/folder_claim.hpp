// folder_claim: one run at a time writes checkpoints into a folder, on any shared disk.
//
//   folder_claim claim("run");                     waits, or throws: another run writes there
//   save(..., {.on_action = claim.guard(), .owner = claim.id()})
//   claim.require_recent()                         between batches
//
// Every run that writes into a folder is a generation of it. Its claim is the file
// `.lock-<generation>`, made by exclusive creation, which NFS keeps since version 3: of several
// runs that start at once one makes it. The holder increments a count in it once a second. The next
// generation may be claimed when the last one
//  - has recorded that it ended;
//  - belongs to a process of this machine (and container) that has ended;
//  - is of the same series as the new one: an earlier start of a program that is restarted; or
//  - has not counted for 30 s, as seen by the program that asks. No clocks are compared, and no
//  locks
//    of the system are needed.
//
// A holder that only was stalled, and continues after another has taken over, must not write:
// fencing. Its checkpoints are written under names that hold the token of its claim, and appear by
// a rename, before which it checks its claim. A run that takes over removes that claim and then
// everything with such a name, and only then lists the folder; so whatever the old holder does
// between its check and its rename, either the rename comes before the new run lists the folder, or
// there is nothing left to rename. (It may still remove one old checkpoint that it was about to
// remove when it was stopped.)
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/checkpoint/atomic_folder.hpp>
#include <parallel/checkpoint/claims/claim_file.hpp>
#include <parallel/checkpoint/claims/this_process.hpp>
#include <parallel/checkpoint/save_target.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/hexadecimal.hpp>
#include <parallel/core/patience.hpp>
#include <parallel/core/random_bytes.hpp>

namespace parallel::checkpoint {

/// Another run has taken over the folder: this run must not write there any more.
class claim_lost : public error {
 public:
  using error::error;
};

/// The files that this run wrote into the folder no longer exist, and no other run has claimed the
/// folder: a mount was lost, or the folder was removed. Nothing may be written there.
class folder_gone : public storage_error {
 public:
  using storage_error::storage_error;
};

/// Another program currently writes into the folder; it may end.
class folder_in_use : public error {
 public:
  using error::error;
};

/// The name of a claim's series, and how often its holder shows that it lives.
struct claim_options {
  /// A common name of programs that run one after another, such as the starts of one `launch`;
  /// empty: none.
  std::string series = {};
  std::chrono::milliseconds beat = std::chrono::seconds(1);
  /// The time without a beat after which the holder counts as gone.
  std::chrono::milliseconds silence = std::chrono::seconds(30);
};

class folder_claim {
 public:
  /// Claims `folder`, which is created if need be, and removes parts of checkpoints that killed
  /// programs left there. Blocks until it is known whether the last holder lives: usually a beat,
  /// `silence` if it does not live and is of another machine. Throws when it lives.
  explicit folder_claim(std::filesystem::path folder, claim_options options = {})
      : folder_(std::move(folder)), options_(std::move(options)) {
    files::make_folders(folder_);
    for (int tries = 0; !try_to_claim(); ++tries)
      require(tries < 1000, folder_.native(),
              ": so many programs begin to write here that none can; start one");
    for (auto const earlier : claim_files::generations(folder_))
      if (earlier < id_.generation) remove(earlier);
    files::sync_folder(folder_);
    remove_leftovers(folder_, is_name_in_root);
    beats_ = std::thread([this] { beat(); });
  }

  folder_claim(folder_claim&&) = delete;

  /// Records that the holder has ended, and leaves the file, which counts the generations.
  ~folder_claim() {
    {
      std::scoped_lock const lock(mutex_);
      is_ended_ = true;
    }
    changed_.notify_all();
    beats_.join();
    try {
      require_held();
      claim_files::write_beat(file(), bytes_, claim_files::ended_text);
    } catch (error const&) {  // the next run finds it silent
    }
  }

  /// The identity of this claim, for the names and manifests of its checkpoints.
  [[nodiscard]] claim_id id() const { return id_; }

  /// Throws claim_lost or folder_gone unless the folder still belongs to this claim, which it reads
  /// from the disk.
  void require_held() const {
    auto const read = [&] { return lost_ ? std::nullopt : claim_files::read(file()); };
    auto found = read();
    auto generations = std::vector<index>();
    for (int tries = 0; !found && tries < 3; ++tries) {  // the disk may not show it at the moment
      std::error_code ignored;                           // a folder that cannot be asked has none
      generations = std::filesystem::is_directory(folder_, ignored)
                        ? claim_files::generations(folder_)
                        : std::vector<index>();
      if (!generations.empty() && generations.back() != id_.generation) break;
      found = read();
    }
    if (found && (!found->whole() || found->token == hexadecimal(id_.token))) {
      checked_at_ = std::chrono::steady_clock::now();
      return;
    }
    auto const successor =
        found || generations.empty() ? found : claim_files::read(file_of(generations.back()));
    if (!lost_ && !found && (generations.empty() || generations.back() < id_.generation))
      fail<folder_gone>(folder_.native(),
                        ": what this run has written here is gone: the folder was removed or "
                        "emptied, or its disk is not mounted any more; nothing is written there "
                        "now, and the run ends; bring the folder back and start again");
    lost_ = true;
    // a run that takes over the folder has a later generation than this run
    bool const replaced = found || (!generations.empty() && generations.back() == id_.generation);
    fail<claim_lost>(folder_.native(),
                     replaced
                         ? ": the folder of this run was replaced, and another has taken over ("
                         : ": this run was stalled for so long that another has taken over (",
                     successor && successor->whole() ? successor->holder : "it has ended since",
                     "); this one has written nothing since, and ends");
  }

  /// Like require_held, but reads the disk only if the last check was long ago, for example because
  /// the process was suspended.
  void require_recent() const {
    if (lost_ || std::chrono::steady_clock::now() - checked_at_.load() > 3 * options_.beat)
      require_held();
  }

  /// A hook for writers (save_options::on_action) that checks the claim before each action that
  /// others see. It calls `other` first.
  [[nodiscard]] action_hook guard(action_hook other = {}) const {
    return [this, other = std::move(other)](std::string_view action) {
      files::announce(other, action);
      if (action.starts_with("create") || action.starts_with("rename") ||
          action.starts_with("remove"))
        require_held();
    };
  }

 private:
  [[nodiscard]] std::filesystem::path file_of(index generation) const {
    return claim_files::file_of(folder_, generation);
  }
  [[nodiscard]] std::filesystem::path file() const { return file_of(id_.generation); }

  void remove(index generation) const {
    auto const path = file_of(generation);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) files::failure(path, "cannot remove");
  }

  // Returns false when others claimed meanwhile, or have gone: the folder must be examined again.
  [[nodiscard]] bool try_to_claim() {
    auto const generations = claim_files::generations(folder_);
    index const last = generations.empty() ? 0 : generations.back();
    if (last > 0) {
      auto const found = claim_files::read(file_of(last));
      if (!found) return false;
      if (!is_over(*found) && !is_silent(last, *found)) return false;
    }
    auto const path = file_of(last + 1);
    descriptor const claim_descriptor(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (claim_descriptor.get() < 0) {
      if (errno == EEXIST) return false;
      files::failure(path, "cannot create this file, which says who writes into its folder");
    }
    id_ = {last + 1, random_number()};
    auto const text = claim_files::format({.text = {},
                                           .token = hexadecimal(id_.token),
                                           .holder = name_of_this_process(),
                                           .scope = scope_of_processes(),
                                           .number = number_of_this_process(),
                                           .series = options_.series});
    bytes_ = text.size();
    errno = 0;
    if (bytes_ > claim_files::most_bytes ||
        ::pwrite(claim_descriptor.get(), text.data(), bytes_, 0) !=
            static_cast<::ssize_t>(bytes_) ||
        !files::flush(claim_descriptor.get())) {
      int const problem = errno == 0 ? ENOSPC : errno;  // it was written in part
      static_cast<void>(::unlink(path.c_str()));
      files::failure(path, "cannot write this file, which says who writes into its folder",
                     problem);
    }
    // The first listing may have been old: a folder that is changed is listed anew.
    auto const current = claim_files::generations(folder_);
    if (!current.empty() && current.back() == id_.generation) return true;
    remove(id_.generation);
    return false;
  }

  [[nodiscard]] bool is_over(claim_text const& last) const {
    if (last.ended) return true;
    if (!options_.series.empty() && last.series == options_.series) return true;
    auto const scope = scope_of_processes();
    return !scope.empty() && last.scope == scope && has_ended(last.number);
  }

  // Throws when the claim's text changes, as it does while its holder lives; false: the file does
  // not exist any more, or the disk does not show it at the moment.
  [[nodiscard]] bool is_silent(index generation, claim_text const& first) const {
    patience remaining(options_.silence);
    while (!remaining.is_over()) {
      std::this_thread::sleep_for(
          std::min<std::chrono::milliseconds>(options_.beat / 4, patience::max_pause));
      auto const current = claim_files::read(file_of(generation));
      if (!current) return false;
      if (is_over(*current)) return true;
      if (current->text != first.text && first.whole())
        fail<folder_in_use>(folder_.native(), ": another program is writing here (",
                            current->holder, "); wait for it, or choose another folder");
      if (current->whole() && !first.whole()) return is_silent(generation, *current);
    }
    return true;
  }

  // Counts while this object lives and the folder belongs to its claim.
  void beat() {
    for (std::uint64_t count = 1;; ++count) {
      {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, options_.beat, [this] { return is_ended_; })) return;
      }
      try {
        require_held();
        claim_files::write_beat(file(), bytes_, claim_files::beat_text(count));
      } catch (claim_lost const&) {
        return;                 // the next write reports it
      } catch (error const&) {  // the disk may come back
      }
    }
  }

  std::filesystem::path folder_;
  claim_options options_;
  claim_id id_;
  std::size_t bytes_ = 0;  // of the claim file
  mutable std::atomic<bool> lost_ = false;
  mutable std::atomic<steady_time> checked_at_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ended_ = false;
  std::thread beats_;
};

}  // namespace parallel::checkpoint
