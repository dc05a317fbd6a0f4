// The expected files below were written by mosaicml-streaming 0.13. Where its index.json carries
// checksums of the shards, an equal index.json shows that the shards are equal byte for byte.
#include <doctest/doctest.h>

#include <cstdint>
#include <mpt/data/hash.hpp>
#include <mpt/data/mds/mds_reader.hpp>
#include <mpt/data/mds/mds_writer.hpp>
#include <mpt/data/scratch.hpp>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mds_writer_test {

using data_test::contains;
using data_test::message_of;
using mpt::data::mds_encoding;
using mpt::data::mds_writer;
using mpt::data::mds_writer_options;
using namespace std::string_literals;

inline std::string tokens(std::vector<std::int32_t> const& ids) {
  std::string out;
  std::vector<std::uint64_t> const dims{ids.size()};
  mds_encoding::parse("ndarray:int32").encode_array(out, std::span<std::int32_t const>(ids), dims);
  return out;
}

inline bool write(mds_writer& writer, std::vector<std::string> const& values) {
  std::vector<std::string_view> const views(values.begin(), values.end());
  return writer.write(views);
}

inline void write_tokens(mds_writer& writer, int first, int last, int length = 6) {
  for (int i = first; i < last; ++i) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
    std::iota(ids.begin(), ids.end(), i * 10);
    (void)write(writer, {tokens(ids)});
  }
}

constexpr std::string_view expected_tokens_index =
    R"({"shards": [{"column_encodings": ["ndarray:int32"], "column_names": ["tokens"], )"
    R"("column_sizes": [null], "compression": null, "format": "mds", "hashes": ["sha1", )"
    R"("xxh3_64"], "raw_data": {"basename": "shard.00000.mds", "bytes": 269, "hashes": )"
    R"({"sha1": "e2e30e4a0970e8eb5c429f46c7a97e39b6d1e2da", "xxh3_64": "38b3367490eba744"}}, )"
    R"("samples": 2, "size_limit": 300, "version": 2, "zip_data": null}, {"column_encodings": )"
    R"(["ndarray:int32"], "column_names": ["tokens"], "column_sizes": [null], "compression": )"
    R"(null, "format": "mds", "hashes": ["sha1", "xxh3_64"], "raw_data": {"basename": )"
    R"("shard.00001.mds", "bytes": 269, "hashes": {"sha1": )"
    R"("f010a84b64a19e359ffec84e0dbe29322e67dc2d", "xxh3_64": "0635b2692ba28097"}}, "samples": )"
    R"(2, "size_limit": 300, "version": 2, "zip_data": null}, {"column_encodings": )"
    R"(["ndarray:int32"], "column_names": ["tokens"], "column_sizes": [null], "compression": )"
    R"(null, "format": "mds", "hashes": ["sha1", "xxh3_64"], "raw_data": {"basename": )"
    R"("shard.00002.mds", "bytes": 235, "hashes": {"sha1": )"
    R"("280f7ebcfd62b7cacb175ee3df46411c4c83aa47", "xxh3_64": "d0516e75ec69fa58"}}, "samples": )"
    R"(1, "size_limit": 300, "version": 2, "zip_data": null}], "version": 2})";

inline mds_writer_options tokens_options() {
  return {{{"tokens", "ndarray:int32"}}, "", {"xxh3_64", "sha1"}, 300};
}

constexpr std::string_view expected_mixed_index =
    R"({"shards": [{"column_encodings": ["ndarray", "ndarray:uint8:2,3", "float16", "json", )"
    R"("int", "str", "uint16", "bytes", "ndarray:float64"], "column_names": ["a", "b", "h", "j", )"
    R"("n", "text", "u", "z", "\u00fc"], "column_sizes": [null, 6, 2, null, 8, null, 2, null, )"
    R"(null], "compression": null, "format": "mds", "hashes": [], "raw_data": {"basename": )"
    R"("shard.00000.mds", "bytes": 1116, "hashes": {}}, "samples": 2, "size_limit": null, )"
    R"("version": 2, "zip_data": null}], "version": 2})";

}  // namespace mds_writer_test

TEST_CASE("MDS writer: token shards and their index equal streaming's byte for byte") {
  using namespace mds_writer_test;
  data_test::scratch_folder const folder;
  mds_writer writer(folder / "set", tokens_options());
  write_tokens(writer, 0, 5);
  CHECK(writer.shards().size() == 2);
  CHECK_FALSE(std::filesystem::exists(folder / "set/index.json"));
  writer.finish();
  CHECK(data_test::get_file(folder / "set/index.json") == expected_tokens_index);
  CHECK(data_test::get_folder(folder / "set").size() == 4);
  CHECK(mpt::data::mds_reader(folder / "set").verify().samples == 5);
}

TEST_CASE("MDS writer: a set of many encodings equals streaming's byte for byte and is read back") {
  using namespace mds_writer_test;
  data_test::scratch_folder const folder;
  mds_writer_options const options{{{"z", "bytes"},
                                    {"text", "str"},
                                    {"n", "int"},
                                    {"a", "ndarray"},
                                    {"b", "ndarray:uint8:2,3"},
                                    {"h", "float16"},
                                    {"j", "json"},
                                    {"\u00fc", "ndarray:float64"},
                                    {"u", "uint16"}},
                                   "",
                                   {},
                                   std::nullopt};
  mds_writer writer(folder.path(), options);
  for (int i = 0; i < 2; ++i) {
    std::string a;
    std::vector<std::int16_t> counting(300);
    std::iota(counting.begin(), counting.end(), std::int16_t{0});
    std::vector<float> const pair{1.5F, 2.5F};
    auto const array = mds_encoding::parse("ndarray");
    if (i == 0)
      array.encode_array(a, std::span<std::int16_t const>(counting),
                         std::vector<std::uint64_t>{300});
    else
      array.encode_array(a, std::span<float const>(pair), std::vector<std::uint64_t>{1, 2});
    (void)write(writer,
                {a, "\x00\x01\x02\x03\x04\x05"s, "\x00\xb8"s, R"({"k": [1, 2, "x"]})",
                 (i == 0 ? "\xfb"s : "\xfc"s) + std::string(7, '\xff'), i == 0 ? "" : "h\u00e9llo",
                 "\xff\xff", std::string(1, char(i)) + "\xff", "\x04\x01\0\0\0\0\0\0\xd0\x3f"s});
  }
  writer.finish();
  CHECK(data_test::get_file(folder / "index.json") == expected_mixed_index);
  CHECK(mpt::data::hash_of("xxh3_64", data_test::get_file(folder / "shard.00000.mds")) ==
        "5974f3783d17d1e5");

  mpt::data::mds_reader const reader(folder.path());
  auto const first = reader.sample(0);
  auto const second = reader.sample(1);
  CHECK(first.array("a").type == mpt::data::mds_type::int16);
  CHECK(first.array("a").to<int>()[299] == 299);
  CHECK(second.array("a").shape == std::vector<std::uint64_t>{1, 2});
  CHECK(second.array("a").to<float>() == std::vector<float>{1.5F, 2.5F});
  CHECK(first.array("b").shape == std::vector<std::uint64_t>{2, 3});
  CHECK(first.array("b").to<int>() == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(first.scalar<float>("h") == -0.5F);
  CHECK(first.json("j")["k"][2] == "x");
  CHECK(first.scalar<std::int64_t>("n") == -5);
  CHECK(second.scalar<int>("n") == -4);
  CHECK(first.text("text") == "");
  CHECK(second.text("text") == "h\u00e9llo");
  CHECK(first.scalar<int>("u") == 65535);
  CHECK(second.bytes("z") == "\x01\xff");
  CHECK(first.array("\u00fc").to<double>() == std::vector<double>{0.25});
  auto const message = message_of([&] { (void)first.bytes("tokens"); });
  CHECK(contains(message, "no column 'tokens'"));
  CHECK(contains(message, "'text'"));
  CHECK(contains(message_of([&] { (void)reader.sample(2); }),
                 "there is no sample 2, since the set has 2 samples"));
}

TEST_CASE("MDS writer: compressed sets of every level hold the same samples") {
  using namespace mds_writer_test;
  for (std::string const compression : {"zstd", "zstd:1", "zstd:19"}) {
    data_test::scratch_folder const folder;
    mds_writer writer(folder.path(), {{{"tokens", "ndarray:int32"}}, compression, {"xxh64"}, 3000});
    write_tokens(writer, 0, 40, 100);
    writer.finish();
    mpt::data::mds_reader const reader(folder.path());
    CHECK(reader.shards().size() > 2);
    CHECK(reader.shards()[0].zip->basename == "shard.00000.mds.zstd");
    for (std::uint64_t i = 0; i < 40; ++i) {
      auto const sample = reader.sample(i);
      CHECK(sample.array("tokens").to<std::uint64_t>()[7] == 10 * i + 7);
    }
    CHECK(reader.verify().shards == reader.shards().size());
  }
}

TEST_CASE("MDS writer: a writer continues after the shards of an interrupted run") {
  using namespace mds_writer_test;
  data_test::scratch_folder const folder;
  std::vector<mpt::data::mds_shard> finished;
  {
    mds_writer first(folder.path(), tokens_options());
    write_tokens(first, 0, 3);
    finished = first.shards();
    CHECK(finished.size() == 1);
  }
  mds_writer second(folder.path(), tokens_options(), finished);
  write_tokens(second, 2, 5);
  second.finish();
  CHECK(data_test::get_file(folder / "index.json") == expected_tokens_index);
}

TEST_CASE("MDS writer: a sample larger than the limit has its own shard") {
  using namespace mds_writer_test;
  data_test::scratch_folder const folder;
  mds_writer writer(folder.path(), {{{"text", "str"}}, "", {}, 10});
  CHECK_FALSE(write(writer, {"large enough"}));
  CHECK(write(writer, {"another one"}));
  CHECK(writer.finish().size() == 2);
}

TEST_CASE("MDS writer: a set without samples is legal") {
  data_test::scratch_folder const folder;
  mpt::data::mds_writer(folder.path(), {{{"text", "str"}}, "", {}, 10}).finish();
  CHECK(data_test::get_file(folder / "index.json") == R"({"shards": [], "version": 2})");
  CHECK(mpt::data::mds_reader(folder.path()).size() == 0);
}

TEST_CASE("MDS writer: values that a set cannot hold are refused before anything is written") {
  using namespace mds_writer_test;
  data_test::scratch_folder const folder;
  auto const make = [&](mds_writer_options const& options) {
    return message_of([&] { mds_writer(folder / "never", options); });
  };
  CHECK(contains(make({{}, "", {}, 10}), "at least one column"));
  CHECK(contains(make({{{"a", "str"}, {"a", "int"}}, "", {}, 10}), "'a' is given twice"));
  CHECK(contains(make({{{"a", "string"}}, "", {}, 10}), "unknown MDS encoding 'string'"));
  CHECK(contains(make({{{"a", "str"}}, "", {"md5"}, 10}), "hash 'md5'"));
  CHECK(contains(make({{{"a", "str"}}, "", {}, std::uint64_t{1} << 32}), "4 GiB"));
  for (std::string const compression : {"gz", "zstd:", "zstd:0", "zstd:23", "zstd:3x", "zst"})
    CHECK(
        contains(make({{{"a", "str"}}, compression, {}, 10}), "compression '" + compression + "'"));
  CHECK_FALSE(std::filesystem::exists(folder / "never"));

  mds_writer writer(folder.path(), {{{"a", "int"}, {"b", "str"}}, "", {}, 10});
  CHECK(contains(message_of([&] { (void)write(writer, {"12345678"}); }), "has 2 columns"));
  CHECK(contains(message_of([&] {
                   (void)write(writer, {"1234567", "x"});
                 }),
                 "column 'a' of encoding 'int' needs 8 bytes, 7 were given"));
}
