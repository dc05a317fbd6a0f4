// A pass that reads elements on the meta device ends with a sentence, not with a bare signal.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

#include <parallel/device/meta/host_access_watch.hpp>
#include <parallel/ops/custom.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/pointwise/elementwise.hpp>

namespace host_access_watch_test {

struct ending {
  std::string text;
  int signal = 0;
};

/// The end of a process that does this, which reads memory that is not there.
template <class Read>
ending end_of(Read const& read_nothing) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  pid_t const process = ::fork();
  if (process == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::signal(SIGSEGV, SIG_DFL);  // the test program has a handler
    read_nothing();
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

constexpr char const* reason =
    "error: a pass of the model reads or writes elements itself while it is planned";

TEST_CASE("meta host access: a fault while a pass is planned says why, another one does not") {
  auto const planned = end_of([] {
    parallel::meta::host_access_watch const watch;
    ::raise(SIGSEGV);
    ::raise(SIGSEGV);  // the first one was handled
  });
  CHECK(planned.signal == SIGSEGV);
  CHECK(planned.text.find(reason) != std::string::npos);
  auto const other = end_of([] {
    { parallel::meta::host_access_watch const ended_watch; }
    ::raise(SIGSEGV);
    ::raise(SIGSEGV);
  });
  CHECK(other.signal == SIGSEGV);
  CHECK(other.text.empty());
}

// This file is compiled with optimisation, by which a read disappears whose result is not used.
TEST_CASE("meta host access: an element that only a number of an operation comes of is read too") {
  auto const view = [] {
    return parallel::vector_view<double>{reinterpret_cast<double*>(std::uintptr_t{1} << 56), {4}};
  };
  auto const custom = end_of([&] {
    parallel::meta::host_access_watch const watch;
    parallel::meta::stream stream;
    parallel::ops::custom(
        stream, [](auto y, double factor) { y(0) = factor; }, view(), 2 * view()(1));
  });
  CHECK(custom.signal == SIGSEGV);
  CHECK(custom.text.find(reason) != std::string::npos);
  auto const scale = end_of([&] {
    parallel::meta::host_access_watch const watch;
    parallel::meta::stream stream;
    parallel::ops::scale(stream, view().span(), 2 * view()(1));
  });
  CHECK(scale.signal == SIGSEGV);
  CHECK(scale.text.find(reason) != std::string::npos);
}

}  // namespace host_access_watch_test
