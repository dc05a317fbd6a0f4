// CRC-32C against the published check values (RFC 3720, B.4).
#include <string>

#include <doctest/doctest.h>

#include <mpt/log/crc32c.hpp>

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
