#include <mpt/log/event_file.hpp>

#include <bit>
#include <chrono>

#include <fmt/format.h>

#include <parallel/core/machine_name.hpp>

namespace mpt::detail {

void protobuf::varint_field(int field, std::uint64_t value) {
  varint(static_cast<std::uint64_t>(field) << 3);
  varint(value);
}

void protobuf::double_field(int field, double value) {
  varint(static_cast<std::uint64_t>(field) << 3 | 1U);
  fixed(std::bit_cast<std::uint64_t>(value), 8);
}

void protobuf::float_field(int field, float value) {
  varint(static_cast<std::uint64_t>(field) << 3 | 5U);
  fixed(std::bit_cast<std::uint32_t>(value), 4);
}

void protobuf::bytes_field(int field, std::string_view value) {
  varint(static_cast<std::uint64_t>(field) << 3 | 2U);
  varint(value.size());
  bytes_ += value;
}

void protobuf::fixed(std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFFU);
}

void protobuf::varint(std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7) bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
  bytes_ += static_cast<char>(value);
}

std::string tf_record(std::string_view data) {
  protobuf out;
  out.fixed(data.size(), 8);
  out.fixed(masked_crc32c(out.bytes()), 4);
  std::string record = out.bytes();
  record += data;
  protobuf end;
  end.fixed(masked_crc32c(data), 4);
  return record + end.bytes();
}

}  // namespace mpt::detail

namespace mpt {

event_file::event_file(std::filesystem::path const& folder, std::int64_t first_step) {
  auto const host = parallel::machine_name();
  std::filesystem::path path;
  for (int number = 0;; ++number) {
    path = folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}",
                                static_cast<std::int64_t>(wall_time()), host, ::getpid(), number);
    if (!parallel::files::exists(path)) break;
  }
  file_ =
      open_for_appending(path, "the event file ", "; choose another loggers.tensorboard.log_dir");
  detail::protobuf event = begin(0);
  event.bytes_field(3, "brain.Event:2");  // file_version
  write(event);
  if (first_step <= 0) return;
  detail::protobuf session;
  session.varint_field(1, 1);  // status: START
  event = begin(first_step);
  event.bytes_field(7, session.bytes());  // session_log
  write(event);
}

void event_file::number(std::string_view tag, double value, std::int64_t step) {
  detail::protobuf item;
  item.bytes_field(1, tag);
  item.float_field(2, static_cast<float>(value));  // simple_value
  summary(item, step);
}

void event_file::text(std::string_view tag, std::string_view value, std::int64_t step) {
  detail::protobuf plugin, metadata, dim, shape, tensor, item;
  plugin.bytes_field(1, "text");            // plugin_name
  metadata.bytes_field(1, plugin.bytes());  // plugin_data
  dim.varint_field(1, 1);                   // size
  shape.bytes_field(2, dim.bytes());        // dim
  tensor.varint_field(1, 7);                // dtype: DT_STRING
  tensor.bytes_field(2, shape.bytes());     // tensor_shape
  tensor.bytes_field(8, value);             // string_val
  item.bytes_field(1, tag);                 // tag
  item.bytes_field(9, metadata.bytes());    // metadata
  item.bytes_field(8, tensor.bytes());      // tensor
  summary(item, step);
}

double event_file::wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

detail::protobuf event_file::begin(std::int64_t step) {
  detail::protobuf event;
  event.double_field(1, wall_time());                       // wall_time
  event.varint_field(2, static_cast<std::uint64_t>(step));  // step
  return event;
}

void event_file::summary(detail::protobuf const& item, std::int64_t step) {
  detail::protobuf summary;
  summary.bytes_field(1, item.bytes());  // value
  auto event = begin(step);
  event.bytes_field(5, summary.bytes());  // summary
  write(event);
}

}  // namespace mpt
