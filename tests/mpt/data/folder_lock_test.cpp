#include <doctest/doctest.h>

#include <mpt/data/folder_lock.hpp>
#include <mpt/data/scratch.hpp>

TEST_CASE("folder lock: a folder has one writer at a time") {
  data_test::scratch_folder const folder;
  {
    mpt::data::folder_lock const first(folder.path());
    auto const message =
        data_test::message_of([&] { mpt::data::folder_lock const second(folder.path()); });
    CHECK(data_test::contains(message, "another program is writing here"));
  }
  CHECK_NOTHROW(mpt::data::folder_lock(folder.path()));
}
