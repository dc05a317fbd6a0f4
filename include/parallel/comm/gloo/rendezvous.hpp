// gloo::detail::rendezvous: how ranks that share a folder learn where the others listen.
//
// Every rank leaves one file, with a record for each of the others: the address of the socket that
// waits for it, and a number drawn for this start. Files appear whole, by a rename. Records are
// sealed: with a key that only this run has, what another run, an older generation or a stranger
// left there is refused.
#pragma once

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/file.hpp>
#include <parallel/core/patience.hpp>

namespace parallel::gloo {

/// A text of fixed length that only who has the run's key can make of `what`. Empty: the folder is
/// trusted.
using sealer = std::function<std::string(std::string_view what)>;

namespace detail {

class rendezvous {
 public:
  /// `folder` is this run's alone, and of this try to run it.
  rendezvous(std::filesystem::path folder, int rank, sealer seal)
      : folder_(std::move(folder)), rank_(rank), seal_(std::move(seal)) {}

  /// Leaves `records`, one a rank and all of one length; that of this rank is read by nobody.
  void leave(std::vector<std::string> const& records) const {
    auto const name = file_of(rank_);
    auto const part = name.string() + ".part";
    std::string text;
    for (std::size_t reader = 0; reader < records.size(); ++reader)
      text += records[reader] + sealed(rank_, static_cast<int>(reader), records[reader]);
    static_cast<void>(::unlink(part.c_str()));
    descriptor const file(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) files::failure(part, "cannot be written");
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        !files::flush(file.get()))
      files::failure(part, "cannot be written");
    files::rename(part, name);
  }

  /// The record of `size` bytes that `from` has left for this rank. Blocks while there is none, as
  /// long as the patience lasts; throws `timed_out` then, and `error` for a record with a wrong
  /// seal.
  [[nodiscard]] std::string take(int from, std::size_t size, patience& limit) const {
    auto const name = file_of(from);
    for (auto pause = std::chrono::milliseconds(2);; pause = std::min(2 * pause, longest_pause)) {
      descriptor const file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
      if (file.get() >= 0) return read(file, name, from, size);
      if (errno != ENOENT) files::failure(name, "cannot be read");
      require(files::exists(folder_), folder_.native(),
              ": this folder of the rendezvous is gone: the run, or this try of it, is over");
      if (limit.over())
        throw timed_out(concat("rank ", from, " has not come to the rendezvous in ",
                               folder_.native(),
                               "; is it started, and does its machine see this folder?"));
      std::this_thread::sleep_for(pause);
    }
  }

  /// What is drawn anew for each record, so that no two say the same.
  [[nodiscard]] static std::string drawn() {
    std::string out(16, '\0');
    require(::getrandom(out.data(), out.size(), 0) == static_cast<ssize_t>(out.size()),
            "the system gives no random numbers");
    return out;
  }

  /// What `from` shows `to` where it connects: only who can read both records, which they have left
  /// for each other, and has the key, can make it. Of one length for all.
  [[nodiscard]] std::string greeting(int from, int to, std::string const& own,
                                     std::string const& other) const {
    auto const text = "hello" + own + other;
    return seal_ ? "hello" + sealed(from, to, text) : text;
  }

  /// The seal of a text that `from` tells `to`.
  [[nodiscard]] std::string sealed(int from, int to, std::string_view text) const {
    return seal_ ? seal_(concat("rank ", from, " to rank ", to, '\n', text)) : std::string();
  }

 private:
  static constexpr std::chrono::milliseconds longest_pause{100};

  [[nodiscard]] std::filesystem::path file_of(int rank) const {
    return folder_ / concat("rank-", rank);
  }

  [[nodiscard]] std::string read(descriptor const& file, std::filesystem::path const& name,
                                 int from, std::size_t size) const {
    std::size_t const length = size + sealed(from, rank_, {}).size();
    std::string text(length, '\0');
    auto const begin = static_cast<std::size_t>(rank_) * length;
    auto const got = ::pread(file.get(), text.data(), length, static_cast<off_t>(begin));
    if (got < 0) files::failure(name, "cannot be read");
    auto const record = text.substr(0, size);
    require(got == static_cast<ssize_t>(length) && text.substr(size) == sealed(from, rank_, record),
            name.native(), ": this is not of rank ", from,
            " of this run: its seal is wrong. It is of another run, or of an older try; remove "
            "the folder, and start all ranks again with one key");
    return record;
  }

  std::filesystem::path folder_;
  int rank_;
  sealer seal_;
};

}  // namespace detail
}  // namespace parallel::gloo
