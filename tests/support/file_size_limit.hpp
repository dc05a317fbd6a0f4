// A limit on the size of files, which fails like a full disk.
#pragma once

#include <sys/resource.h>

#include <csignal>

namespace test {

/// While this object lives, no file of this process can grow beyond `bytes`: a write fails with
/// EFBIG.
class file_size_limit {
 public:
  explicit file_size_limit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &former_);
    ::rlimit const limit{bytes, former_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~file_size_limit() {
    ::setrlimit(RLIMIT_FSIZE, &former_);
    std::signal(SIGXFSZ, handler_);
  }
  file_size_limit(file_size_limit const&) = delete;
  file_size_limit& operator=(file_size_limit const&) = delete;

 private:
  ::rlimit former_{};
  void (*handler_)(int);
};

}  // namespace test
