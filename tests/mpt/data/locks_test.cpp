#include <optional>

#include <doctest/doctest.h>

#include <mpt/data/locks.hpp>
#include <mpt/data/scratch.hpp>

#include "scratch.hpp"

namespace byte_lock_test {

using mpt::data::byte_lock;

TEST_CASE("byte lock: bytes are shared by readers, and had by one writer alone") {
  data_test::scratch_folder const folder;
  auto const file = folder.path() / "locks";
  data_test::put_file(file, "");
  byte_lock first(file, 7);
  byte_lock second(file, 7);
  byte_lock other_byte(file, 8);
  CHECK(first.try_shared());
  CHECK(second.try_shared());
  CHECK(!first.try_exclusive());
  CHECK(other_byte.try_exclusive());
  second.unlock();
  CHECK(first.try_exclusive());
  CHECK(!second.try_shared());
  CHECK(first.try_shared());  // and no moment between in which the byte is unlocked
  CHECK(second.try_shared());
}

TEST_CASE("byte lock: a lock ends with its object") {
  data_test::scratch_folder const folder;
  auto const file = folder.path() / "locks";
  data_test::put_file(file, "");
  std::optional<byte_lock> holder(std::in_place, file, 1);
  byte_lock waiting(file, 1);
  CHECK(holder->try_exclusive());
  CHECK(!waiting.try_exclusive());
  holder.reset();
  CHECK(waiting.try_exclusive());
}

TEST_CASE("byte lock: a file that is not there gives a message") {
  CHECK(
      data_test::contains(data_test::message_of([] { byte_lock const lock("/nowhere/locks", 1); }),
                          "/nowhere/locks: cannot open this file of locks"));
}

}  // namespace byte_lock_test

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
