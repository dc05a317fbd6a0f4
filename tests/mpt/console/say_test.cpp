#include <fcntl.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <mpt/console/progress.hpp>
#include <mpt/console/say.hpp>

TEST_CASE("say: text that standard error does not take is lost without an exception") {
  int const original = ::dup(STDERR_FILENO);
  int const full = ::open("/dev/full", O_WRONLY);
  REQUIRE(full >= 0);
  ::dup2(full, STDERR_FILENO);
  CHECK_NOTHROW(mpt::console::say("{} of {}\n", 1, 2));
  {
    mpt::console::progress bar("test");
    CHECK_NOTHROW(bar.update(0.5, "half"));
    CHECK_NOTHROW(bar.note("a note"));
  }
  ::dup2(original, STDERR_FILENO);
  ::close(full);
  ::close(original);
}
