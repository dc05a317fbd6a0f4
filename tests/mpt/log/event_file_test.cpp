// Tests of the event file, which a strict parser in this file reads back.
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/log/event_file.hpp>

namespace event_file_test {

/// One field of a protobuf message: its number, then a varint, bits, or bytes.
struct field {
  std::uint64_t number = 0;
  std::uint64_t wire = 0;
  std::uint64_t value = 0;
  std::string bytes;
};

std::vector<field> parse(std::string_view message) {
  std::vector<field> fields;
  auto const varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(!message.empty());
      REQUIRE(shift < 64);
      auto const byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80U) == 0) return value;
    }
  };
  while (!message.empty()) {
    auto const key = varint();
    field next{.number = key >> 3, .wire = key & 7U, .value = 0, .bytes = {}};
    std::size_t const fixed = next.wire == 1 ? 8 : next.wire == 5 ? 4 : 0;
    if (next.wire == 0) {
      next.value = varint();
    } else if (fixed > 0) {
      REQUIRE(message.size() >= fixed);
      for (std::size_t i = 0; i < fixed; ++i)
        next.value |= std::uint64_t{static_cast<unsigned char>(message[i])} << (8 * i);
      message.remove_prefix(fixed);
    } else {
      REQUIRE(next.wire == 2);
      auto const size = varint();
      REQUIRE(message.size() >= size);
      next.bytes = message.substr(0, size);
      message.remove_prefix(size);
    }
    fields.push_back(next);
  }
  return fields;
}

field one(std::vector<field> const& fields, std::uint64_t number) {
  field found;
  int count = 0;
  for (auto const& f : fields)
    if (f.number == number) {
      found = f;
      ++count;
    }
  REQUIRE(count == 1);
  return found;
}

/// The messages of a file; lengths and both checksums must be right, and no bytes may remain.
std::vector<std::vector<field>> read(std::filesystem::path const& path) {
  std::ifstream file(path, std::ios::binary);
  std::string const contents(std::istreambuf_iterator<char>(file), {});
  std::string_view left = contents;
  auto const number = [](std::string_view bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  };
  std::vector<std::vector<field>> events;
  while (!left.empty()) {
    REQUIRE(left.size() >= 16);
    auto const size = number(left.substr(0, 8));
    CHECK(number(left.substr(8, 4)) == mpt::masked_crc32c(left.substr(0, 8)));
    REQUIRE(left.size() >= 16 + size);
    auto const data = left.substr(12, size);
    CHECK(number(left.substr(12 + size, 4)) == mpt::masked_crc32c(data));
    events.push_back(parse(data));
    left.remove_prefix(16 + size);
  }
  return events;
}

std::filesystem::path scratch() {
  auto const folder = std::filesystem::temp_directory_path() / "parallellm_event_file_test";
  std::filesystem::remove_all(folder);
  return folder;
}

TEST_CASE("event_file: numbers and texts are read back after the version record") {
  auto const folder = scratch();
  mpt::event_file file(folder / "run");
  file.number("loss/train/total", 2.5, 1);
  file.number("time/token", 4096, 300);
  file.text("generations/0", "once → upon", 300);
  auto const events = read(file.path());
  REQUIRE(events.size() == 4);
  CHECK(file.path().filename().string().starts_with("events.out.tfevents."));
  CHECK(one(events[0], 3).bytes == "brain.Event:2");
  for (auto const& event : events) {
    CHECK(one(event, 1).wire == 1);
    CHECK(std::bit_cast<double>(one(event, 1).value) > 1.6e9);
  }
  CHECK(one(events[1], 2).value == 1);
  auto const value = parse(one(parse(one(events[1], 5).bytes), 1).bytes);
  CHECK(one(value, 1).bytes == "loss/train/total");
  CHECK(one(value, 2).wire == 5);
  CHECK(std::bit_cast<float>(static_cast<std::uint32_t>(one(value, 2).value)) == 2.5F);
  CHECK(one(events[2], 2).value == 300);
  auto const text = parse(one(parse(one(events[3], 5).bytes), 1).bytes);
  CHECK(one(text, 1).bytes == "generations/0");
  auto const tensor = parse(one(text, 8).bytes);
  CHECK(one(tensor, 1).value == 7);
  CHECK(one(tensor, 8).bytes == "once → upon");
  CHECK(one(parse(one(parse(one(text, 9).bytes), 1).bytes), 1).bytes == "text");
  std::filesystem::remove_all(folder);
}

TEST_CASE("event_file: a resumed run's new file voids earlier records from its first step on") {
  auto const folder = scratch();
  mpt::event_file const first(folder);
  mpt::event_file const second(folder, 11);
  CHECK(first.path() != second.path());
  CHECK(first.path() < second.path());
  auto const events = read(second.path());
  REQUIRE(events.size() == 2);
  CHECK(one(events[1], 2).value == 11);
  CHECK(one(parse(one(events[1], 7).bytes), 1).value == 1);
  std::filesystem::remove_all(folder);
}

}  // namespace event_file_test

namespace crc32c_test {

TEST_CASE("CRC-32C: equals the published check values") {
  CHECK(mpt::crc32c("") == 0);
  CHECK(mpt::crc32c("123456789") == 0xE3069283U);
  CHECK(mpt::crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(mpt::crc32c(std::string(32, '\xff')) == 0x62A8AB43U);
}

TEST_CASE("masked CRC-32C: equals the checksum in TensorFlow's files") {
  // the length 24 of the usual first record, "brain.Event:2" with a time
  std::string const length{"\x18\0\0\0\0\0\0\0", 8};
  CHECK(mpt::masked_crc32c(length) == 0x224B7FA3U);
}

}  // namespace crc32c_test
