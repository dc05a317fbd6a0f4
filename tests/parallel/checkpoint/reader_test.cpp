#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/reader.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace reader_test {
namespace pc = parallel::checkpoint;
using parallel::index;

TEST_CASE("any range of any tensor is read from the slices of any number of ranks") {
  for (index const ranks : {1, 2, 3, 4, 5, 7, 8}) {
    test::temporary_folder const folder;
    test::save_checkpoint(folder.path(), 3, ranks);
    pc::checkpoint_reader const reader(folder / "ep0-ba3");
    CHECK(test::holds_checkpoint(folder / "ep0-ba3", 3));
    for (index begin = 0; begin <= 77; ++begin)
      for (index end = begin; end <= 77; end += 1 + (end - begin) / 4) {
        std::vector<float> values(static_cast<std::size_t>(end - begin));
        reader.read("w#exp_avg", begin, std::span(values));
        for (index i = begin; i < end; ++i)
          REQUIRE(values[static_cast<std::size_t>(i - begin)] == test::checkpoint_value(3, i));
      }
  }
}

TEST_CASE("elements are converted among real types, and never otherwise") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 3, 2);
  pc::checkpoint_reader const reader(folder / "ep0-ba3");
  std::vector<double> wide(10);
  reader.read("w", 33, std::span(wide));
  CHECK(wide[9] == 3042.0);
  std::vector<parallel::bf16> narrow(77);
  reader.read("w", 0, std::span(narrow));
  CHECK(narrow[76] == parallel::bf16(3076.0F));
  std::vector<float> floats(1);
  CHECK(test::contains(test::message_of([&] { reader.read("step", 0, std::span(floats)); }),
                       "is of I64, which is not read as f32"));
  std::vector<std::int32_t> ints(1);
  CHECK(test::contains(test::message_of([&] { reader.read("w", 0, std::span(ints)); }),
                       "is of F32, which is not read as i32"));
  CHECK(test::contains(test::message_of([&] { reader.read("x", 0, std::span(floats)); }),
                       "has no tensor \"x\""));
  CHECK(test::contains(test::message_of([&] { reader.read("w", 77, std::span(floats)); }),
                       "has 77 elements; 1 from 77 on were asked for"));
  CHECK(test::contains(test::message_of([&] { reader.read("w", -1, std::span(floats)); }),
                       "were asked for"));
}

TEST_CASE("a flipped bit is found by reading its slice whole, and by verify") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 3, 2);
  auto const path = folder / "ep0-ba3/rank-00001-F32-000.safetensors";
  auto content = test::read_all(path);
  auto const last = content.size() - 1;  // in the part of "w#exp_avg" that rank 1 wrote
  content[last] ^= 1;
  test::write_all(path, content);
  pc::checkpoint_reader const reader(folder / "ep0-ba3");
  std::vector<float> values(77);
  reader.read("w", 0, std::span(values));
  auto const expected = "of tensor \"w#exp_avg\"";
  auto const message = test::message_of([&] { reader.read("w#exp_avg", 0, std::span(values)); });
  CHECK_MESSAGE(test::contains(message, expected), message);
  CHECK(test::contains(message, "are damaged: their checksum is"));
  std::vector<double> converted(77);
  CHECK(test::contains(test::message_of([&] { reader.read("w#exp_avg", 0, std::span(converted)); }),
                       expected));
  CHECK(test::contains(test::message_of([&] { reader.verify(); }), expected));
  int found = 0;  // exactly one of three ranks meets it
  for (index share = 0; share < 3; ++share)
    if (!test::message_of([&] { reader.verify(share, 3); }).empty()) ++found;
  CHECK(found == 1);
}

TEST_CASE("slices longer than one piece are read and checked whole") {
  test::temporary_folder const folder;
  pc::save_target const target{folder.path(), {0, 1}, 0};
  pc::prepare_save(target);
  pc::rank_writer writer(target, 0);
  std::vector<float> values(700'001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  writer.add<float>("w", std::vector<index>{700'001}, 0, values);
  pc::commit(target, {writer.finish()}, "{}");
  pc::checkpoint_reader const reader(target.folder());
  reader.verify();
  std::vector<float> read(values.size());
  reader.read("w", 0, std::span(read));
  CHECK(read == values);
  std::vector<double> part(600'000);
  reader.read("w", 50'000, std::span(part));
  CHECK(part.back() == 649'999.0);
}

}  // namespace reader_test
