// nccl::file_rendezvous: processes that share a disk receive bytes that rank 0 has made.
//
// Rank 0 writes a file under another name, flushes and renames it, so that nobody reads half of it.
// Only its owner can read it (0600), since everyone who knows NCCL's unique id can join. The file
// contains the run's name, so that a file of an earlier run is not accepted; rank 0 first removes
// an old file, and removes its own when it is destroyed, which must be after all ranks have joined.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <parallel/core/error.hpp>
#include <parallel/core/file.hpp>

namespace parallel::nccl {

class file_rendezvous {
 public:
  /// `run` is the same on all ranks, and different in every run (a job's number and its restarts).
  file_rendezvous(std::filesystem::path file, std::string run)
      : file_(std::move(file)), run_(std::move(run)) {
    require(!run_.empty() && run_.find('\n') == std::string::npos,
            "file_rendezvous: the run needs a name of one line");
  }
  file_rendezvous(file_rendezvous&&) = delete;
  ~file_rendezvous() {
    if (is_writer_) static_cast<void>(::unlink(file_.c_str()));
  }

  /// Called by rank 0: gives `bytes` to the other ranks.
  void write(std::string_view bytes) {
    static_cast<void>(::unlink(file_.c_str()));
    auto const temporary = file_.string() + ".part";
    static_cast<void>(::unlink(temporary.c_str()));
    descriptor const file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    require(file.get() >= 0, problem("cannot be written"));
    std::string const text = concat(run_, '\n', bytes);
    bool const written =
        ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
        files::flush(file.get());
    require(written && ::rename(temporary.c_str(), file_.c_str()) == 0,
            problem("cannot be written"));
    is_writer_ = true;
  }

  /// The `size` bytes that rank 0 has written. Blocks; throws `error` at the deadline, with what
  /// the file contains instead.
  [[nodiscard]] std::string wait_for(std::size_t size, std::chrono::milliseconds deadline) const {
    auto const give_up_time = std::chrono::steady_clock::now() + deadline;
    for (;;) {
      std::string const text = read();
      auto const line = text.find('\n');
      bool const is_ours = line != std::string::npos && text.substr(0, line) == run_;
      if (is_ours && text.size() == line + 1 + size) return text.substr(line + 1);
      require(!is_ours, file_.string(), ": has ", text.size() - line - 1, " bytes, expected ", size,
              "; all ranks need the same program");
      require(std::chrono::steady_clock::now() < give_up_time, file_.string(),
              ": rank 0 has not written ",
              text.empty() ? "it"
                           : concat("that of run ", run_, " (there is one of run ",
                                    text.substr(0, line), ", which is left over)"),
              " within ", static_cast<double>(deadline.count()) / 1000,
              " s; all ranks must see the same folder and be given the same run");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

 private:
  [[nodiscard]] std::string problem(char const* failure) const {
    return concat(file_.string(), ": ", failure, ": ", std::generic_category().message(errno),
                  "; give a folder that all ranks see and may write to");
  }

  /// The contents of the file; empty when there is none.
  [[nodiscard]] std::string read() const {
    descriptor const file(::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (file.get() < 0) {
      require(errno == ENOENT, problem("cannot be read"));
      return {};
    }
    char text[4096];
    auto const got = ::read(file.get(), text, sizeof text);
    require(got >= 0, problem("cannot be read"));
    return {text, static_cast<std::size_t>(got)};
  }

  std::filesystem::path file_;
  std::string run_;
  bool is_writer_ = false;
};

}  // namespace parallel::nccl
