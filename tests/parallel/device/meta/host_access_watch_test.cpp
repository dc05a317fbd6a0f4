// A pass that reads elements on the meta device ends with a sentence, not with a bare signal.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include <parallel/device/meta/host_access_watch.hpp>

namespace host_access_watch_test {

struct ending {
  std::string text;
  int signal = 0;
};

/// The end of a process that reads memory that is not there, watched or not.
ending read_nothing(bool is_watched) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  pid_t const process = ::fork();
  if (process == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::signal(SIGSEGV, SIG_DFL);  // the test program has a handler
    if (is_watched) {
      parallel::meta::host_access_watch const watch;
      ::raise(SIGSEGV);
    } else {
      { parallel::meta::host_access_watch const ended_watch; }
      ::raise(SIGSEGV);
    }
    ::raise(SIGSEGV);  // the first one was handled
    ::_exit(0);
  }
  ::close(ends[1]);
  ending out;
  std::array<char, 512> part{};
  for (ssize_t count; (count = ::read(ends[0], part.data(), part.size())) > 0;)
    out.text.append(part.data(), static_cast<std::size_t>(count));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(process, &status, 0);
  out.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return out;
}

TEST_CASE("meta host access: a fault while a pass is planned says why, another one does not") {
  auto const planned = read_nothing(true);
  CHECK(planned.signal == SIGSEGV);
  CHECK(planned.text.find("error: a pass of the model reads or writes elements itself while it is "
                          "planned") != std::string::npos);
  auto const other = read_nothing(false);
  CHECK(other.signal == SIGSEGV);
  CHECK(other.text.empty());
}

}  // namespace host_access_watch_test
