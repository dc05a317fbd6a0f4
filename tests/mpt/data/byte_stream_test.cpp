#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <zlib.h>
#include <zstd.h>

#include <mpt/data/byte_stream.hpp>
#include <mpt/data/scratch.hpp>
#include <parallel/core/philox.hpp>

namespace byte_stream_test {

using data_test::contains;
using data_test::message_of;
using mpt::data::byte_stream;
using mpt::data::compression;

inline std::string gzip(std::string_view text) {
  ::z_stream stream{};
  ::deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(text.size() + text.size() / 100 + 1000, '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<unsigned>(text.size());
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = static_cast<unsigned>(out.size());
  ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

inline std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

inline std::string pack(compression kind, std::string_view text) {
  return kind == compression::gzip   ? gzip(text)
         : kind == compression::zstd ? zstd(text)
                                     : std::string(text);
}

inline std::string unpack(std::filesystem::path const& path, compression kind, std::size_t step) {
  byte_stream stream(path, kind);
  std::string out;
  std::string piece(step, '\0');
  while (auto const got = stream.read(piece.data(), piece.size())) out.append(piece, 0, got);
  return out;
}

inline std::string noise(std::size_t count) {
  parallel::philox const random(1, 2);
  std::string out;
  for (std::size_t i = 0; i < count; ++i)
    out += static_cast<char>('a' + random.bits(i) % (i % 1000 < 500 ? 2 : 26));
  return out;
}

}  // namespace byte_stream_test

TEST_CASE("byte stream: the end of the file name determines the compression") {
  using namespace byte_stream_test;
  CHECK(mpt::data::compression_of("a.json.gz") == compression::gzip);
  CHECK(mpt::data::compression_of("a.jsonl.zst") == compression::zstd);
  CHECK(mpt::data::compression_of("a.mds.zstd") == compression::zstd);
  CHECK(mpt::data::compression_of("a.gz.txt") == compression::none);
}

TEST_CASE("byte stream: plain, gzip and zstd files are read completely in pieces of any size") {
  using namespace byte_stream_test;
  data_test::scratch_folder const folder;
  auto const text = noise(700000);  // more than two input windows, compressed or not
  for (auto const kind : {compression::none, compression::gzip, compression::zstd}) {
    data_test::put_file(folder / "file", pack(kind, text));
    for (std::size_t const step : {std::size_t{1} << 20, std::size_t{4096}, std::size_t{977}})
      CHECK(unpack(folder / "file", kind, step) == text);
  }
}

TEST_CASE("byte stream: several gzip members or zstd frames in a row are one stream") {
  using namespace byte_stream_test;
  data_test::scratch_folder const folder;
  for (auto const kind : {compression::gzip, compression::zstd}) {
    data_test::put_file(folder / "file",
                        pack(kind, "one ") + pack(kind, "") + pack(kind, "two") + pack(kind, ""));
    CHECK(unpack(folder / "file", kind, 100) == "one two");
    CHECK(unpack(folder / "file", kind, 1) == "one two");
  }
}

TEST_CASE("byte stream: a file cut at any byte is an error that names the file and the byte") {
  using namespace byte_stream_test;
  data_test::scratch_folder const folder;
  auto const text = noise(3000);
  for (auto const kind : {compression::gzip, compression::zstd}) {
    auto const whole = pack(kind, text);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      data_test::put_file(folder / "cut", whole.substr(0, size));
      auto const message = message_of([&] { (void)unpack(folder / "cut", kind, 512); });
      INFO(size);
      REQUIRE(contains(message, "ends in the middle, at byte " + std::to_string(size)));
      REQUIRE(contains(message, "/cut: the "));
    }
  }
}

TEST_CASE("byte stream: damaged data is always an error") {
  using namespace byte_stream_test;
  data_test::scratch_folder const folder;
  auto const whole = gzip(noise(3000));
  for (std::size_t offset = 0; offset < whole.size(); offset += 3) {
    auto broken = whole;
    broken[offset] = static_cast<char>(broken[offset] ^ 0x55);
    data_test::put_file(folder / "bad.gz", broken);
    std::string out;
    auto const message =
        message_of([&] { out = unpack(folder / "bad.gz", compression::gzip, 512); });
    INFO(offset);
    // header fields such as the time stamp do not matter
    REQUIRE((contains(message, "bad.gz") || out == noise(3000)));
  }
  data_test::put_file(folder / "x.gz", "this is not gzip at all");
  CHECK(contains(message_of([&] { (void)unpack(folder / "x.gz", compression::gzip, 9); }),
                 "damaged gzip data near byte"));
  data_test::put_file(folder / "x.zst", "this is not zstd at all");
  CHECK(contains(message_of([&] { (void)unpack(folder / "x.zst", compression::zstd, 9); }),
                 "damaged zstd data near byte"));
  data_test::put_file(folder / "y.gz", gzip("good") + "rubbish after it");
  CHECK(contains(message_of([&] { (void)unpack(folder / "y.gz", compression::gzip, 9); }),
                 "damaged gzip data"));
}

TEST_CASE("byte order mark: has three bytes in UTF-8 text and none in text without a mark") {
  using mpt::data::byte_order_mark;
  CHECK(byte_order_mark("\xEF\xBB\xBFtext", "f") == 3);
  CHECK(byte_order_mark("\xEF\xBB\xBF", "f") == 3);
  for (std::string_view const text : {"", "text", "\xEF\xBB", "\xFF", "x\xFF\xFE"})
    CHECK(byte_order_mark(text, "f") == 0);
}

TEST_CASE(
    "byte order mark: text in UTF-16 or UTF-32 is refused with the command that converts it") {
  using namespace std::string_view_literals;
  auto const error = [](std::string_view text) {
    return data_test::message_of([&] { (void)mpt::data::byte_order_mark(text, "a.txt"); });
  };
  auto const utf_16 =
      "a.txt: is text in UTF-16 by its byte order mark, and UTF-8 is read; convert it: iconv -f "
      "UTF-16 -t UTF-8 IN > OUT";
  CHECK(error("\xFF\xFEh\0i\0"sv) == utf_16);
  CHECK(error("\xFE\xFF\0h\0i"sv) == utf_16);
  CHECK(error("\xFF\xFE"sv) == utf_16);
  CHECK(error("\xFF\xFE\0\0h\0\0\0"sv).starts_with("a.txt: is text in UTF-32"));
  CHECK(error("\0\0\xFE\xFF\0\0\0h"sv).starts_with("a.txt: is text in UTF-32"));
}
