#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <mpt/data/mds/mds_encoding.hpp>
#include <mpt/data/scratch.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mds_encoding_test {

using data_test::contains;
using data_test::message_of;
using mpt::data::mds_encoding;
using namespace std::string_literals;

template <class Number>
std::string encoded(std::string_view name, std::vector<Number> const& values,
                    std::vector<std::uint64_t> const& dims) {
  std::string out;
  mds_encoding::parse(name).encode_array(out, std::span<Number const>(values), dims);
  return out;
}

std::string decode_error(std::string_view name, std::string const& bytes) {
  return message_of([&] { (void)mds_encoding::parse(name).decode_array(bytes, "here"); });
}

template <class Number>
void check_round_trip(std::string_view type) {
  std::vector<Number> const values{Number{0}, std::numeric_limits<Number>::lowest(),
                                   std::numeric_limits<Number>::max(), Number{7}};
  for (auto const& name :
       {"ndarray"s, "ndarray:" + std::string(type), "ndarray:" + std::string(type) + ":2,2"}) {
    auto const encoding = mds_encoding::parse(name);
    auto const bytes = encoded<Number>(name, values, {2, 2});
    if (encoding.fixed_bytes) CHECK(*encoding.fixed_bytes == bytes.size());
    auto const array = encoding.decode_array(bytes, "here");
    CHECK(to_string(array.type) == type);
    CHECK(array.shape == std::vector<std::uint64_t>{2, 2});
    CHECK(array.template to<Number>() == values);
  }
}

}  // namespace mds_encoding_test

TEST_CASE("MDS encoding: arrays of every type are read back in all three forms of the header") {
  using namespace mds_encoding_test;
  check_round_trip<std::int8_t>("int8");
  check_round_trip<std::int16_t>("int16");
  check_round_trip<std::int32_t>("int32");
  check_round_trip<std::int64_t>("int64");
  check_round_trip<std::uint8_t>("uint8");
  check_round_trip<std::uint16_t>("uint16");
  check_round_trip<std::uint32_t>("uint32");
  check_round_trip<std::uint64_t>("uint64");
  check_round_trip<float>("float32");
  check_round_trip<double>("float64");
}

TEST_CASE("MDS encoding: array headers have streaming's bytes") {
  using namespace mds_encoding_test;
  CHECK(encoded<std::int16_t>("ndarray", {1}, {1}) == "\x11\x04\x01\x01\x00"s);
  CHECK(encoded<std::int16_t>("ndarray:int16", {1, 2}, {2}) == "\x04\x02\x01\x00\x02\x00"s);
  CHECK(encoded<std::uint8_t>("ndarray:uint8:1,2", {1, 2}, {1, 2}) == "\x01\x02"s);
  auto const wide = encoded<std::int32_t>("ndarray:int32", std::vector<std::int32_t>(2048), {2048});
  CHECK(wide.size() == 8195);  // a sample has 8199 bytes with its length
  CHECK(wide.substr(0, 3) == "\x05\x00\x08"s);
  auto const large = encoded<std::uint8_t>("ndarray", std::vector<std::uint8_t>(70000), {70000});
  CHECK(large.substr(0, 6) == "\x08\x06\x70\x11\x01\x00"s);
  // a dimension of eight bytes is legal
  auto const bytes = "\x08\x07\x02\x00\x00\x00\x00\x00\x00\x00\x05\x06"s;
  auto const decoded = mds_encoding::parse("ndarray").decode_array(bytes, "here");
  CHECK(decoded.to<int>() == std::vector<int>{5, 6});
}

TEST_CASE("MDS encoding: scalars of every type are decoded, and wrong sizes are refused") {
  using namespace mds_encoding_test;
  CHECK(mds_encoding::parse("int").decode_scalar<int>("\xfe\xff\xff\xff\xff\xff\xff\xff", "h") ==
        -2);
  CHECK(mds_encoding::parse("uint16").decode_scalar<std::int64_t>("\xff\xff", "h") == 65535);
  CHECK(mds_encoding::parse("int8").decode_scalar<int>("\x80", "h") == -128);
  CHECK(mds_encoding::parse("float16").decode_scalar<float>("\x00\xb8"s, "h") == -0.5F);
  CHECK(mds_encoding::parse("float16").decode_scalar<float>("\x01\x00"s, "h") == 0x1p-24F);
  CHECK(mds_encoding::parse("float16").decode_scalar<float>("\xff\x7b"s, "h") == 65504.0F);
  CHECK(mds_encoding::parse("float16").decode_scalar<double>("\x00\xfc"s, "h") ==
        -std::numeric_limits<double>::infinity());
  CHECK(mds_encoding::parse("float64").decode_scalar<double>("\0\0\0\0\0\0\xd0\x3f"s, "h") == 0.25);
  auto const fails = [](char const* name, std::string const& bytes) {
    return message_of(
        [&] { (void)mds_encoding::parse(name).decode_scalar<std::int8_t>(bytes, "h"); });
  };
  CHECK(contains(fails("int16", "\xff\x7f"s), "value 32767"));
  CHECK(contains(fails("int16", "x"), "needs 2 bytes, found 1"));
  CHECK(contains(fails("float32", "\0\0\0\0"s), "not an array of integers"));
  CHECK(contains(fails("str", "\0\0\0\0"s), "not a scalar"));
}

TEST_CASE("MDS encoding: names that streaming does not have are refused") {
  using namespace mds_encoding_test;
  for (auto const* name : {"ndarray:", "ndarray:int33", "ndarray:int32:", "ndarray:int32:0",
                           "ndarray:int32:2,", "ndarray:int32:-1", "ndarray:int32:4294967295,9",
                           "ndarrayx", "", "int128", "pkl:x", "Str"}) {
    CAPTURE(name);
    if (std::string_view(name) == "ndarray:") {
      CHECK_NOTHROW((void)mds_encoding::parse(name));  // streaming reads it as "ndarray"
      continue;
    }
    CHECK(contains(message_of([&] { (void)mds_encoding::parse(name); }), "encoding '"));
  }
  CHECK(mds_encoding::parse("pkl").value_kind == mds_encoding::kind::opaque);
  CHECK(mds_encoding::parse("list[jpeg]").value_kind == mds_encoding::kind::opaque);
}

TEST_CASE("MDS encoding: arrays with an inconsistent header are refused") {
  using namespace mds_encoding_test;
  CHECK(contains(decode_error("ndarray", ""), "ends before its dtype code"));
  CHECK(contains(decode_error("ndarray", "\x07\x04\x01x"), "unknown dtype code 7"));
  CHECK(contains(decode_error("ndarray", "\x08"), "ends before its shape code"));
  CHECK(contains(decode_error("ndarray:uint8", "\xff\xff"), "asks for 63 dimensions"));
  CHECK(contains(decode_error("ndarray:uint8", "\x00xyz"s), "asks for 0 dimensions"));
  CHECK(contains(decode_error("ndarray:uint8", "\x04\x03xy"), "does not match its 2 bytes"));
  CHECK(contains(decode_error("ndarray:int32", "\x04\x01xyz"), "does not match"));
  CHECK(contains(decode_error("ndarray:int32:2", "1234567"), "does not match"));
  // 2^32 * 2^32 elements overflow 64 bits to 0
  CHECK(contains(decode_error("ndarray:uint8", "\x0a\0\0\0\x80\0\0\0\x80"s), "does not match"));
  CHECK(contains(decode_error("ndarray:uint8", "\x0b"s + std::string(16, '\x80')), "not match"));
}

TEST_CASE("MDS encoding: values that do not fit the encoding are not written") {
  using namespace mds_encoding_test;
  CHECK(contains(message_of([] { (void)encoded<float>("ndarray:int32", {1}, {1}); }), "float32"));
  CHECK(contains(message_of([] { (void)encoded<int>("ndarray:int32", {}, {0}); }), "empty"));
  CHECK(contains(message_of([] { (void)encoded<int>("ndarray:int32", {1, 2}, {3}); }), "2 values"));
  CHECK(contains(message_of([] { (void)encoded<int>("ndarray:int32", {1}, {}); }), "shape"));
  CHECK(contains(message_of([] { (void)encoded<int>("ndarray:int32:3", {1}, {1}); }), "fixes"));
  CHECK(contains(message_of([] { (void)encoded<int>("str", {1}, {1}); }), "not an array"));
}
