#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/reader.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/file_counts.hpp>
#include <parallel/support/files.hpp>

// These replace functions of the C library in this program: they do the same, and count the calls.
extern "C" int open(char const* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  auto const mode = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0U;
  va_end(rest);
  ++test::opened_files;
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
extern "C" ssize_t pread(int file, void* to, std::size_t bytes, off_t offset) {
  auto const got = ::syscall(SYS_pread64, file, to, bytes, offset);
  if (got > 0) test::read_bytes += static_cast<std::size_t>(got);
  return got;
}

namespace reader_test {
namespace pc = parallel::checkpoint;
using parallel::index;

TEST_CASE("checkpoint reader: any range of any tensor is read from slices of any number of ranks") {
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

TEST_CASE("checkpoint reader: elements are converted among real types only") {
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

TEST_CASE("checkpoint reader: a flipped bit is found by reading its whole slice, and by verify") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 3, 2);
  auto const path = folder / "ep0-ba3/rank-00001-F32-000.safetensors";
  auto content = test::read_all(path);
  auto const last = content.size() - 1;  // in the slice of "w#exp_avg" that rank 1 wrote
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
  int found = 0;  // exactly one of three ranks finds it
  for (index share = 0; share < 3; ++share)
    if (!test::message_of([&] { reader.verify(share, 3); }).empty()) ++found;
  CHECK(found == 1);
}

TEST_CASE("checkpoint reader: slices longer than one piece are read and checked whole") {
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

/// A checkpoint of "w" [60, 12], whose element i is i. Each of `ranks` ranks has an equal share of
/// the columns of rows 6 to 54; the first and the last rows are flat slices.
void save_columns(std::filesystem::path const& root, index ranks) {
  pc::save_target const target{root, {0, 1}, 0};
  pc::prepare_save(target);
  std::vector<index> const extents{60, 12};
  std::vector<std::string> records;
  for (index rank = 0; rank < ranks; ++rank) {
    pc::rank_writer writer(target, rank);
    auto const add = [&](index begin, index run, index rows) {
      std::vector<float> values;
      for (index row = 0; row < rows; ++row)
        for (index i = 0; i < run; ++i) values.push_back(static_cast<float>(begin + row * 12 + i));
      writer.add<float>("w", extents, begin, values, rows == 1 ? 0 : run);
    };
    add(72 + rank * 12 / ranks, 12 / ranks, 48);
    if (rank == 0) add(0, 72, 1);
    if (rank == ranks - 1) add(648, 72, 1);
    records.push_back(writer.finish());
  }
  pc::commit(target, records, "{}");
}

TEST_CASE("checkpoint reader: columns of rows are read from slices of columns and of rows") {
  for (index const ranks : {2, 3, 4, 6}) {
    test::temporary_folder const folder;
    save_columns(folder.path(), ranks);
    pc::checkpoint_reader const reader(folder / "ep0-ba1");
    for (index run = 1; run <= 12; ++run)
      for (index const column : {index{0}, (12 - run) / 2, 12 - run})
        for (index const row : {0, 3, 6, 17, 53, 59})
          for (index const rows : {index{1}, (60 - row + 1) / 2, 60 - row}) {
            auto const begin = row * 12 + column;
            std::vector<float> values(static_cast<std::size_t>(run * rows));
            std::vector<double> wide(values.size());
            reader.read_block("w", begin, run, std::span(values));
            reader.read_block("w", begin, run, std::span(wide));
            for (index i = 0; i < run * rows; ++i) {
              auto const k = static_cast<std::size_t>(i);
              REQUIRE(values[k] == static_cast<float>(begin + i / run * 12 + i % run));
              REQUIRE(wide[k] == static_cast<double>(values[k]));
            }
          }
    std::vector<float> uneven(7);
    CHECK(test::contains(test::message_of([&] { reader.read_block("w", 0, 3, std::span(uneven)); }),
                         "7 elements are not whole runs of 3 of rows of 12"));
    std::vector<float> beyond(24);
    CHECK(
        test::contains(test::message_of([&] { reader.read_block("w", 715, 2, std::span(beyond)); }),
                       "were asked for"));
  }
}

TEST_CASE(
    "checkpoint reader: a file is opened once for each slice that is read, and once for verify") {
  test::temporary_folder const folder;
  save_columns(folder.path(), 4);
  pc::checkpoint_reader const reader(folder / "ep0-ba1");
  auto const opens = [](auto&& action) {
    int const opened_before = test::opened_files;
    action();
    return test::opened_files - opened_before;
  };
  std::vector<float> elements(720);
  CHECK(opens([&] { reader.read_block("w", 0, 12, std::span(elements)); }) == 6);
  CHECK(opens([&] { reader.read("w", 0, std::span(elements)); }) == 6);
  CHECK(opens([&] { reader.read_block("w", 1, 1, std::span(elements).first(60)); }) == 3);
  CHECK(opens([&] { reader.read_block("w", 75, 6, std::span(elements).first(288)); }) == 2);
  CHECK(opens([&] { reader.verify(); }) == 4);
  int together =
      0;  // the rank that reads a file's header opens it, as does the one that reads its slices
  for (index share = 0; share < 64; ++share) together += opens([&] { reader.verify(share, 64); });
  CHECK(together == 8);
}

TEST_CASE("checkpoint reader: all damage is reported, each slice by one rank") {
  test::temporary_folder const folder;
  save_columns(folder.path(), 3);
  auto const root = folder / "ep0-ba1";
  for (std::string const rank : {"0", "2"}) {
    auto const path = root / ("rank-0000" + rank + "-F32-000.safetensors");
    auto content = test::read_all(path);
    content[65536 + 100] ^= 4;  // in the first slice, after the header
    test::write_all(path, content);
  }
  pc::checkpoint_reader const reader(root);
  auto const found = reader.damage();
  REQUIRE(found.size() == 2);
  CHECK(test::contains(found[0], "rank-00000-F32-000.safetensors: elements 72 to"));
  CHECK(test::contains(found[1], "rank-00002-F32-000.safetensors: elements 80 to"));
  for (index const ranks : {2, 3, 7}) {
    std::size_t reported = 0;
    for (index share = 0; share < ranks; ++share) reported += reader.damage(share, ranks).size();
    CHECK(reported == 2);
  }
  auto const path = root / "rank-00001-F32-000.safetensors";
  auto content = test::read_all(path);
  content[9] ^= 4;  // other ranks read its header
  test::write_all(path, content);
  for (index const ranks : {1, 2, 3, 7}) {
    std::string reported;
    for (index share = 0; share < ranks; ++share)
      for (auto const& one : reader.damage(share, ranks)) reported += one + '\n';
    CHECK(std::ranges::count(reported, '\n') == 3);
    CHECK(test::contains(reported,
                         path.native() + ": its header (the first 65536 bytes) is damaged"));
  }
  std::filesystem::remove(path);
  CHECK(reader.damage().size() == 3);
  CHECK(test::contains(reader.damage().at(1), "rank-00001-F32-000.safetensors: cannot open"));
}

/// Flips bits of a file of a checkpoint, truncates it, or overwrites a part of it, `times` times,
/// each time in another way. A checkpoint that is not refused must hold every saved bit.
void damage_at_random(int times) {
  test::temporary_folder const folder;
  test::save_checkpoint(folder.path(), 3, 3);
  auto const root = folder / "ep0-ba3";
  std::vector<std::filesystem::path> files;
  for (auto const& entry : std::filesystem::directory_iterator(root)) files.push_back(entry.path());
  std::ranges::sort(files);
  std::mt19937_64 random(17);
  int refused = 0;
  for (int i = 0; i < times; ++i) {
    auto const& path = files[random() % files.size()];
    auto const whole = test::read_all(path);
    auto content = whole;
    // Damage must hit content: a safetensors file begins with a large reserved space.
    auto const content_offset = [&] {
      auto const tail_bytes = std::min<std::size_t>(content.size(), 65536);
      return random() % 2 == 0
                 ? random() % content.size()
                 : content.size() - 1 - random() % (content.size() - tail_bytes + 400);
    };
    switch (random() % 3) {
      case 0: content[content_offset()] ^= static_cast<char>(1U << random() % 8); break;
      case 1: content.resize(content_offset()); break;
      default: {
        auto const from = content_offset();
        for (std::size_t offset = from; offset < std::min(content.size(), from + 40); ++offset)
          content[offset] = static_cast<char>(random());
      }
    }
    test::write_all(path, content);
    bool is_same = false;
    auto const message = test::message_of([&] { is_same = test::holds_checkpoint(root, 3); });
    CAPTURE(i);
    CAPTURE(path.native());
    REQUIRE((is_same || !message.empty()));
    refused += message.empty() ? 0 : 1;
    test::write_all(path, whole);
  }
  CHECK(refused > times / 3);
  CHECK(test::holds_checkpoint(root, 3));
}

TEST_CASE("checkpoint reader: no damaged checkpoint is read as a different valid one") {
  damage_at_random(300);
}

TEST_CASE(
    "[full] checkpoint reader: none of ten thousand damaged checkpoints is read as a valid one") {
  damage_at_random(10'000);
}

}  // namespace reader_test
