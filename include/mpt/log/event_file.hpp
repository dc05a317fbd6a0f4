// event_file: a writer of TensorBoard's log format: numbers and texts by step.
//
// A file holds TFRecords (length, masked CRC-32C of the length, data, masked CRC-32C of the data;
// little endian) of Event messages (tensorflow/core/util/event.proto) in protobuf's wire format.
// Every start of a program makes a new file in the folder; TensorBoard reads the files in the order
// of their names. After a resume, a SessionLog states the step from which on the records of earlier
// files are void.
//
// CRC-32C (Castagnoli, polynomial 0x1EDC6F41, reflected), and its masked form in TFRecord files.
#pragma once

#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <mpt/log/appended_file.hpp>
#include <parallel/core/error.hpp>

namespace mpt {

namespace detail {

[[nodiscard]] constexpr std::array<std::uint32_t, 256> crc32c_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}

}  // namespace detail

/// The CRC-32C of `bytes`. Cost: one table look-up per byte, fast enough for records of some
/// kilobytes.
[[nodiscard]] constexpr std::uint32_t crc32c(std::string_view bytes) {
  constexpr auto table = detail::crc32c_table();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (char const byte : bytes)
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8);
  return crc ^ 0xFFFFFFFFU;
}

/// The masked CRC-32C that TFRecord stores, since a checksum of data that holds checksums is weak.
[[nodiscard]] constexpr std::uint32_t masked_crc32c(std::string_view bytes) {
  std::uint32_t const crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

namespace detail {

/// A protobuf message under construction.
class protobuf {
 public:
  void varint_field(int field, std::uint64_t value);
  void double_field(int field, double value);
  void float_field(int field, float value);
  void bytes_field(int field, std::string_view value);
  [[nodiscard]] std::string const& bytes() const { return bytes_; }

  /// Appends the `count` low bytes of `value`, lowest first.
  void fixed(std::uint64_t value, int count);

 private:
  void varint(std::uint64_t value);

  std::string bytes_;
};

/// Data as a TFRecord.
[[nodiscard]] std::string tf_record(std::string_view data);

}  // namespace detail

class event_file {
 public:
  /// Makes a new file in `folder` and the folder itself. A `first_step` above 0 voids the records
  /// of earlier files in the folder from that step on.
  explicit event_file(std::filesystem::path const& folder, std::int64_t first_step = 0);

  [[nodiscard]] std::filesystem::path const& path() const { return file_.path(); }

  /// The number of records lost so far, as on a full disk.
  [[nodiscard]] std::uint64_t lost() const { return file_.lost(); }

  /// Writes a number under `tag`; several numbers of a step are several calls.
  void number(std::string_view tag, double value, std::int64_t step);

  /// Writes a text that the text plug-in shows as Markdown.
  void text(std::string_view tag, std::string_view value, std::int64_t step);

 private:
  [[nodiscard]] static double wall_time();

  [[nodiscard]] static detail::protobuf begin(std::int64_t step);

  void summary(detail::protobuf const& item, std::int64_t step);

  void write(detail::protobuf const& event) { file_.add(detail::tf_record(event.bytes())); }

  appended_file file_;
};

}  // namespace mpt
