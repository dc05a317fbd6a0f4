#include <doctest/doctest.h>

#include <zstd.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <mpt/data/mds/mds_reader.hpp>
#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/scratch.hpp>
#include <parallel/core/philox.hpp>
#include <string>
#include <string_view>
#include <support/data.hpp>
#include <support/text_cases.hpp>
#include <thread>
#include <vector>

namespace mds_reader_test {

using data_test::contains;
using data_test::message_of;
using mpt::data::mds_reader;
using namespace std::string_literals;

/// A set of `count` samples {n: int, text: str} in shards of about `limit` bytes.
inline void make_set(std::filesystem::path const& folder, int count, std::uint64_t limit,
                     std::string const& compression = "",
                     std::vector<std::string> const& hashes = {}) {
  mpt::data::mds_writer writer(folder,
                               {{{"n", "int"}, {"text", "str"}}, compression, hashes, limit});
  for (int i = 0; i < count; ++i) {
    std::string number;
    mpt::data::detail::store(number, static_cast<std::int64_t>(i));
    auto const text = std::string(static_cast<std::size_t>(i % 7), 'a');
    std::string_view const values[] = {number, text};
    (void)writer.write(values);
  }
  writer.finish();
}

/// Opens the set and reads all of it.
inline std::string read_error(std::filesystem::path const& folder) {
  return message_of([&] {
    mds_reader const reader(folder);
    for (std::uint64_t i = 0; i < reader.size(); ++i) {
      auto const sample = reader.sample(i);
      (void)sample.scalar<std::int64_t>("n");
      (void)sample.text("text");
    }
    (void)reader.verify();
  });
}

inline void replace(std::filesystem::path const& file, std::string_view old_text,
                    std::string_view new_text) {
  auto content = data_test::get_file(file);
  auto const offset = content.find(old_text);
  REQUIRE(offset != std::string::npos);
  data_test::put_file(file, content.replace(offset, old_text.size(), new_text));
}

inline void overwrite(std::filesystem::path const& file, std::size_t offset, std::uint32_t value) {
  auto content = data_test::get_file(file);
  std::memcpy(content.data() + offset, &value, 4);
  data_test::put_file(file, content);
}

}  // namespace mds_reader_test

TEST_CASE("MDS reader: the golden set has 173 samples of 2048 ids in a zstd shard") {
  auto const data = test::data_folder();
  if (data.empty()) return;
  mpt::data::mds_reader const reader(data / "mds/golden-arxiv-neox20b-2048");
  REQUIRE(reader.size() == 173);
  for (std::uint64_t i = 0; i < reader.size(); ++i) {
    auto const sample = reader.sample(i);
    auto const array = sample.array("tokens");
    CHECK(array.type == mpt::data::mds_type::int32);
    CHECK(array.shape == std::vector<std::uint64_t>{2048});
    for (auto const id : array.to<std::int64_t>()) REQUIRE((id >= 0 && id < 50277));
  }
  CHECK(reader.verify().samples == 173);
}

TEST_CASE("MDS reader: composer's self-described float arrays and int64 labels are read") {
  auto const data = test::data_folder();
  if (data.empty()) return;
  mpt::data::mds_reader const reader(data / "mds/composer_ndarray_int64");
  REQUIRE(reader.size() == 4);
  std::vector<int> labels;
  for (std::uint64_t i = 0; i < 4; ++i) {
    auto const sample = reader.sample(i);
    CHECK(sample.array("X").type == mpt::data::mds_type::float32);
    CHECK(sample.array("X").shape == std::vector<std::uint64_t>{6});
    labels.push_back(sample.scalar<int>("y"));
  }
  CHECK(labels == std::vector<int>{0, 0, 1, 1});
  auto const sample = reader.sample(0);
  auto const first = sample.array("X").to<float>();
  CHECK(first[0] == std::bit_cast<float>(0x3ff6a529U));
  CHECK(first[5] == std::bit_cast<float>(0xbf9e0591U));
  CHECK(reader.verify().samples == 4);
}

TEST_CASE(
    "MDS reader: streaming's merged index over sub-folders is read, and each sub-folder alone") {
  auto const data = test::data_folder();
  if (data.empty()) return;
  auto const folder = data / "mds/naive_MDSdataset";
  mpt::data::mds_reader const merged(folder);
  REQUIRE(merged.size() == 5);
  CHECK(merged.sample(0).text("dept") == "Finance");
  CHECK(merged.sample(0).text("id") == "36636");
  CHECK(merged.sample(2).text("dept") == "Sales");
  mpt::data::mds_reader const part(folder, {.split = "25"});
  REQUIRE(part.size() == 2);
  for (std::uint64_t i = 0; i < 2; ++i)
    CHECK(part.sample(i).text("id") == merged.sample(3 + i).text("id"));
  CHECK(mpt::data::mds_reader(folder / "27").size() == 0);
  CHECK(merged.verify().samples == 5);
}

TEST_CASE("MDS reader: a small cache serves samples of many raw or compressed shards") {
  for (std::string const compression : {"", "zstd"}) {
    data_test::scratch_folder const folder;
    mds_reader_test::make_set(folder.path(), 100, 400, compression);
    mpt::data::mds_reader const reader(folder.path(), {.cache_bytes = 1, .cache_shards = 1});
    REQUIRE(reader.size() == 100);
    REQUIRE(reader.shards().size() >= 10);
    for (std::uint64_t i = 0; i < 100; ++i) {
      auto const index = i * 37 % 100;
      CHECK(reader.sample(index).scalar<std::uint64_t>("n") == index);
      CHECK(reader.sample(index).text("text").size() == index % 7);
    }
  }
}

TEST_CASE("MDS reader: several threads share one reader") {
  data_test::scratch_folder const folder;
  mds_reader_test::make_set(folder.path(), 200, 600, "zstd");
  mpt::data::mds_reader const reader(folder.path(), {.cache_shards = 2});
  std::vector<std::uint64_t> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (std::uint64_t i = 0; i < 400; ++i) {
          auto const index = (i * (7 + t) + t) % 200;
          wrong[t] += reader.sample(index).scalar<std::uint64_t>("n") != index ? 1 : 0;
        }
      });
  }
  CHECK(wrong == std::vector<std::uint64_t>(4));
}

TEST_CASE("MDS reader: the raw file is read if streaming left only that") {
  data_test::scratch_folder const folder;
  mds_reader_test::make_set(folder.path(), 5, 1 << 20, "zstd");
  auto const packed = data_test::get_file(folder / "shard.00000.mds.zstd");
  std::string raw(ZSTD_getFrameContentSize(packed.data(), packed.size()), '\0');
  (void)ZSTD_decompress(raw.data(), raw.size(), packed.data(), packed.size());
  data_test::put_file(folder / "shard.00000.mds", raw);
  std::filesystem::remove(folder / "shard.00000.mds.zstd");
  CHECK(mds_reader_test::read_error(folder.path()) == "");
}

TEST_CASE("MDS reader: checksums are verified, and unknown algorithms are listed") {
  using namespace mds_reader_test;
  data_test::scratch_folder const folder;
  make_set(folder.path(), 3, 1 << 20, "", {"sha1", "xxh3_64"});
  replace(folder / "index.json", R"("hashes": {"sha1")", R"("hashes": {"md5": "00", "sha1")");
  CHECK(mds_reader(folder.path()).verify().unverified == std::vector<std::string>{"md5"});
  auto content = data_test::get_file(folder / "shard.00000.mds");
  content.back() = 'b';
  data_test::put_file(folder / "shard.00000.mds", content);
  CHECK(contains(read_error(folder.path()), "shard.00000.mds: sha1 is "));
  mds_reader const damaged(folder.path());
  for (int time = 0; time < 2; ++time)
    CHECK(contains(message_of([&] { (void)damaged.sample(0); }), "sha1 is "));

  data_test::scratch_folder const zipped;
  make_set(zipped.path(), 3, 1 << 20, "zstd", {"xxh3_64"});
  content = data_test::get_file(zipped / "shard.00000.mds.zstd");
  content.back() = static_cast<char>(content.back() ^ 1);
  data_test::put_file(zipped / "shard.00000.mds.zstd", content);
  mds_reader const reader(zipped.path());
  CHECK(contains(message_of([&] { (void)reader.sample(0); }), "xxh3_64 is "));
  CHECK(contains(message_of([&] { (void)reader.sample(0); }), zipped.path().native() + "/shard."));
}

TEST_CASE("MDS reader: an unfinished or absent set is refused with advice") {
  using namespace mds_reader_test;
  data_test::scratch_folder const folder;
  CHECK(contains(read_error(folder.path()), "index.json: not found"));
  CHECK(contains(message_of([&] { mds_reader(folder.path(), {.split = "../x"}); }),
                 "not the name of a sub-folder"));
}

TEST_CASE("MDS reader: an inconsistent index is refused, naming the shard and the field") {
  using namespace mds_reader_test;
  data_test::scratch_folder const folder;
  make_set(folder.path(), 3, 1 << 20);
  auto const index = data_test::get_file(folder / "index.json");
  for (auto const& example : test::text_cases("mpt/data/mds/refused_indices.txt", "indices")) {
    CAPTURE(example.text);
    data_test::put_file(folder / "index.json", test::changed(index, example.text));
    CHECK(contains(read_error(folder.path()), example.expected));
  }
}

TEST_CASE("MDS reader: an inconsistent shard is refused, naming the file and the position") {
  using namespace mds_reader_test;
  data_test::scratch_folder const folder;
  auto const error_with_value = [&](std::size_t offset, std::uint32_t value) {
    make_set(folder.path(), 3, 1 << 20);
    overwrite(folder / "shard.00000.mds", offset, value);
    return read_error(folder.path());
  };
  CHECK(contains(error_with_value(0, 2), "holds 2 samples, index.json says 3"));
  CHECK(contains(error_with_value(8, 0xffffffffU), "offset of sample 2"));
  CHECK(contains(error_with_value(8, 0), "is before that of sample 0"));
  CHECK(contains(error_with_value(4, 0), "expected from 20"));
  CHECK(contains(error_with_value(16, 0xffffffffU), "expected from 20"));
  CHECK(contains(error_with_value(20, 0x20202020U), "header"));
  make_set(folder.path(), 3, 1 << 20);
  auto const first = mpt::data::detail::load<std::uint32_t>(
      data_test::get_file(folder / "shard.00000.mds").data() + 4);
  CHECK(contains(error_with_value(first, 1), "sample 0: a column of 1 bytes does not fit"));
  make_set(folder.path(), 3, 1 << 20);
  auto const second = mpt::data::detail::load<std::uint32_t>(
      data_test::get_file(folder / "shard.00000.mds").data() + 8);
  CHECK(contains(error_with_value(second, 0), "sample 1: has 1 bytes beyond its columns"));

  make_set(folder.path(), 3, 1 << 20);
  std::filesystem::resize_file(folder / "shard.00000.mds", 50);
  CHECK(contains(read_error(folder.path()), "has 50 bytes, index.json says"));
}

TEST_CASE("MDS reader: a raw shard that is cut short after it was opened is an error") {
  using namespace mds_reader_test;
  data_test::scratch_folder const folder;
  make_set(folder.path(), 3, 1 << 20);
  mds_reader const reader(folder.path());
  (void)reader.sample(0);
  std::filesystem::resize_file(folder / "shard.00000.mds", 50);
  CHECK(contains(message_of([&] { (void)reader.sample(2); }), "cut short"));
}

TEST_CASE("MDS reader: damaged, cut and over-expanding zstd shards are refused") {
  using namespace mds_reader_test;
  data_test::scratch_folder const folder;
  make_set(folder.path(), 30, 1 << 20, "zstd");
  auto const file = folder / "shard.00000.mds.zstd";
  auto const whole = data_test::get_file(file);
  auto const bytes = parallel::concat("\"bytes\": "s, whole.size());

  data_test::put_file(file, whole.substr(0, whole.size() - 9));
  CHECK(contains(read_error(folder.path()), "index.json says"));
  replace(folder / "index.json", bytes, parallel::concat("\"bytes\": "s, whole.size() - 9));
  CHECK(contains(read_error(folder.path()), "damaged zstd data"));

  // a decompression bomb: a frame that declares, and holds, far more than the index says
  std::string const zeros(1 << 22, '\0');
  auto bomb = mpt::data::detail::zstd_compress(zeros, 3);
  make_set(folder.path(), 30, 1 << 20, "zstd");
  data_test::put_file(file, bomb);
  replace(folder / "index.json", bytes, parallel::concat("\"bytes\": "s, bomb.size()));
  CHECK(contains(read_error(folder.path()), "decompresses to 4194304 bytes"));

  // a decompression bomb with a consistent index: a few KiB expand to 128 MiB
  bomb = mpt::data::detail::zstd_compress(std::string(std::size_t{1} << 27, '\0'), 1);
  make_set(folder.path(), 30, 1 << 20, "zstd");
  data_test::put_file(file, bomb);
  replace(folder / "index.json", bytes, parallel::concat("\"bytes\": "s, bomb.size()));
  auto const small =
      mpt::data::parse_mds_index(data_test::get_file(folder / "index.json"), "x")[0].raw.bytes;
  replace(folder / "index.json", parallel::concat("\"bytes\": "s, small), "\"bytes\": 134217728");
  CHECK(contains(read_error(folder.path()),
                 "more than 200 times its size when decompressed (134217728 bytes of "));

  // an index that declares more than so few bytes can expand to, and a frame without a size
  make_set(folder.path(), 30, 1 << 20, "zstd");
  auto const raw =
      mpt::data::parse_mds_index(data_test::get_file(folder / "index.json"), "x")[0].raw;
  bomb = std::string("\x28\xb5\x2f\xfd\x00\x58\x01\x00\x00", 9);  // an empty last block
  data_test::put_file(file, bomb);
  replace(folder / "index.json", bytes, parallel::concat("\"bytes\": "s, bomb.size()));
  replace(folder / "index.json", parallel::concat("\"bytes\": "s, raw.bytes),
          "\"bytes\": 4294967295");
  CHECK(contains(read_error(folder.path()), "its 9 bytes cannot become the 4294967295"));

  make_set(folder.path(), 30, 1 << 20, "zstd");
  replace(folder / "index.json", R"("compression": "zstd")", R"("compression": "br")");
  CHECK(contains(read_error(folder.path()), "compression 'br' is not supported"));
}

TEST_CASE("MDS reader: random mutations of an index or a shard cause at most an error") {
  using namespace mds_reader_test;
  parallel::philox const random(1234, parallel::stream_id("mds_reader_test/fuzz"));
  std::uint64_t drawn = 0;
  auto const draw = [&](std::size_t limit) { return random.bits(drawn++) % limit; };
  std::uint64_t refused = 0;
  for (std::string const compression : {"", "zstd"}) {
    data_test::scratch_folder const folder;
    make_set(folder.path(), 6, 400, compression);
    auto const original = data_test::get_folder(folder.path());
    for (int round = 0; round < 1500; ++round) {
      auto victim = original.begin();
      std::advance(victim, draw(original.size()));
      auto content = victim->second;
      for (auto changes = 1 + draw(3); changes > 0; --changes) {
        auto const position = draw(content.size());
        switch (draw(5)) {
          case 0: content[position] = static_cast<char>(draw(256)); break;
          case 1: content[position] = static_cast<char>(content[position] ^ (1 << draw(8))); break;
          case 2: content.erase(position, 1 + draw(8)); break;
          case 3: content.insert(position, 1 + draw(4), "0}],\xff\""[draw(6)]); break;
          default: {
            auto const value = std::uint32_t{draw(2) == 0 ? 0xffffffffU : 0x7fffffffU};
            if (position + 4 <= content.size()) std::memcpy(content.data() + position, &value, 4);
          }
        }
        if (content.empty()) content = "x";
      }
      data_test::put_file(folder / victim->first, content);
      refused += read_error(folder.path()).empty() ? 0 : 1;
      data_test::put_file(folder / victim->first, victim->second);
    }
    CHECK(read_error(folder.path()) == "");
  }
  CHECK(refused >
        2000);  // other mutations change bytes of text, which no check finds without checksums
}
