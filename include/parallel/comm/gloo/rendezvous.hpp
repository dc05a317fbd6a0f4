// gloo::detail::rendezvous: ranks that share a folder learn where the other ranks listen.
//
// Every rank writes one file, with a record for each other rank: the address of the socket that
// waits for it, and a random number of this start. A rename makes a file appear complete. Records
// are sealed with a key that only this run has, so that records of another run, an older generation
// or a stranger are refused.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
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
#include <parallel/core/random_bytes.hpp>

namespace parallel::gloo {

/// Returns a text of fixed length that only the holder of the run's key can compute from `text`. An
/// empty function means that the folder is trusted.
using sealer = std::function<std::string(std::string_view text)>;

namespace detail {

class rendezvous {
 public:
  /// `folder` belongs to this run alone, and to this try to start it.
  rendezvous(std::filesystem::path folder, int rank, sealer seal)
      : folder_(std::move(folder)), rank_(rank), seal_(std::move(seal)) {}

  /// Writes `records`, one for each rank and all of one length; this rank's own record is not read.
  void write_records(std::vector<std::string> const& records) const {
    auto const name = file_of(rank_);
    auto const temporary = name.string() + ".part";
    std::string text;
    for (std::size_t reader = 0; reader < records.size(); ++reader)
      text += records[reader] + sealed(rank_, static_cast<int>(reader), records[reader]);
    static_cast<void>(::unlink(temporary.c_str()));
    descriptor const file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) files::failure(temporary, "cannot be written");
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        !files::flush(file.get()))
      files::failure(temporary, "cannot be written");
    files::rename(temporary, name);
  }

  /// The record of `size` bytes that `from` has written for this rank. Blocks until it exists or
  /// `limit` is over, when it throws `timed_out`; throws `error` for a record with a wrong seal.
  [[nodiscard]] std::string read_record(int from, std::size_t size, patience& limit) const {
    auto const name = file_of(from);
    for (auto pause = std::chrono::milliseconds(2);; pause = std::min(2 * pause, longest_pause)) {
      descriptor const file(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
      if (file.get() >= 0) return read(file, name, from, size);
      if (errno != ENOENT) files::failure(name, "cannot be read");
      require(files::exists(folder_), folder_.native(),
              ": this folder of the rendezvous is gone: the run, or this try of it, is over");
      if (limit.is_over())
        throw timed_out(concat("rank ", from, " has not come to the rendezvous in ",
                               folder_.native(),
                               "; is it started, and does its machine see this folder?"));
      std::this_thread::sleep_for(pause);
    }
  }

  /// Random bytes for a record, so that no two records are equal.
  [[nodiscard]] static std::string random_record() { return random_bytes(16); }

  /// The text that `from` sends to `to` when they connect. Only a process that can read both ranks'
  /// records, and has the key, can compute it. All such texts have one length.
  [[nodiscard]] std::string greeting(int from, int to, std::string const& own_record,
                                     std::string const& other_record) const {
    auto const text = "hello" + own_record + other_record;
    return seal_ ? "hello" + sealed(from, to, text) : text;
  }

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
