#include <cerrno>

#include <doctest/doctest.h>

#include <parallel/core/failures.hpp>
#include <parallel/core/file.hpp>

namespace failures_test {
using namespace parallel;

TEST_CASE("files::failure: denied permissions and reached limits throw access_error") {
  for (int const code : {EACCES, EMFILE})
    CHECK_THROWS_AS(files::failure("folder/x", "cannot open", code), access_error);
}

TEST_CASE("files::failure: failures of the disk throw storage_error, a missing file does not") {
  CHECK_THROWS_AS(files::failure("folder/x", "cannot write", ENOSPC), storage_error);
  CHECK_THROWS_AS(files::failure("folder/x", "cannot write", EROFS), storage_error);
  CHECK_THROWS_WITH_AS(files::failure("folder/x", "cannot write", ENOSPC),
                       "folder/x: cannot write: No space left on device", error);
  try {
    files::failure("folder/x", "cannot open", ENOENT);
  } catch (storage_error const&) {
    FAIL("a name that is not there is not the disk's fault");
  } catch (error const&) {
  }
}

TEST_CASE("fail: throws the given exception type with a message that is safe for a terminal") {
  CHECK_THROWS_WITH_AS(fail<timed_out>("rank ", 2, " waited\x01"), "rank 2 waited?", timed_out);
  CHECK_THROWS_AS(fail<diverged>("x"), error);
  CHECK_THROWS_AS(fail<out_of_memory>("x"), error);
  CHECK_THROWS_AS(fail<corrupted>("x"), error);
}
}  // namespace failures_test
