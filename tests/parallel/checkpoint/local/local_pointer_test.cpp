#include <filesystem>
#include <string>

#include <doctest/doctest.h>

#include <parallel/checkpoint/local/local_pointer.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace local_pointer_test {
namespace pc = parallel::checkpoint;
namespace fs = std::filesystem;

TEST_CASE("local pointer: a written pointer is read back, and replaced by one rename") {
  test::temporary_folder const folder;
  CHECK_FALSE(pc::read_local_pointer(folder.path()));
  CHECK_FALSE(pc::read_local_pointer(folder / "none"));
  pc::local_pointer const first{{1, 30}, 2, 0xabc}, second{{1, 60}, 3, 0xdef};
  pc::write_local_pointer(folder.path(), first, 7);
  CHECK(pc::read_local_pointer(folder.path()) == first);
  std::string steps;
  for (std::string const stop : {"create file", "write file", "flush file", "rename pointer"}) {
    CHECK(test::message_of([&] {
            pc::write_local_pointer(folder.path(), second, 7, [&](std::string_view step) {
              steps += std::string(step) + ";";
              if (step == stop) parallel::fail("stopped");
            });
          }) == "stopped");
    CHECK(pc::read_local_pointer(folder.path()) == first);
  }
  pc::remove_leftovers(folder.path(), pc::is_name_in_root);  // as the next claim of the folder does
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
  pc::write_local_pointer(folder.path(), second, 7);
  CHECK(pc::read_local_pointer(folder.path()) == second);
}

TEST_CASE("local pointer: a file with other content is an error with its name") {
  test::temporary_folder const folder;
  auto const message_of = [&](std::string const& text) {
    test::write_all(folder / "local.json", text);
    return test::message_of([&] { (void)pc::read_local_pointer(folder.path()); });
  };
  auto const name = (folder / "local.json").native();
  CHECK(test::contains(message_of(""), name + ": not valid JSON"));
  CHECK(test::contains(message_of("{}"), name));
  CHECK(test::contains(message_of(R"({"checkpoint": "x", "generation": 1, "manifest": ""})"),
                       name + ": \"checkpoint\" is not named like one, ep0-ba100"));
  CHECK(test::contains(message_of(R"({"checkpoint": "ep0-ba1", "generation": 1, "manifest": "1"})"),
                       "16 hexadecimal digits"));
  CHECK(test::contains(message_of(std::string(5000, ' ')), "more than the 4096 allowed"));
  CHECK(test::contains(pc::note_on_local_checkpoint(folder.path()), name));
}

TEST_CASE(
    "local pointer: a checkpoint of a later run, or of a later batch of the same run, is newer") {
  test::temporary_folder const folder;
  auto const& root = folder.path();
  auto const newer = [&](parallel::index generation, parallel::index batch) {
    pc::write_local_pointer(root, {{0, batch}, generation, 1}, 1);
    return pc::newer_local_checkpoint(root).has_value();
  };
  CHECK_FALSE(pc::newer_local_checkpoint(root));
  CHECK(newer(1, 1));  // there is no other checkpoint
  test::save_checkpoint(root, 50, 1, {}, {2, 20});
  CHECK_FALSE(newer(1, 60));  // an earlier run, which was considered lost
  CHECK_FALSE(newer(2, 40));
  CHECK_FALSE(newer(2, 50));
  CHECK(newer(2, 51));
  CHECK(newer(3, 10));  // a run that started over
  CHECK(test::contains(pc::note_on_local_checkpoint(root), "a newer checkpoint, ep0-ba10, is on"));
  test::save_checkpoint(
      root, 5, 1, {},
      {4, 40});  // the checkpoint saved last counts, not the one of the latest batch
  CHECK_FALSE(newer(3, 60));
  CHECK(pc::note_on_local_checkpoint(root).empty());
}

}  // namespace local_pointer_test
