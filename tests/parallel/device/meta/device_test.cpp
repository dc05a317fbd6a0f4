#include <doctest/doctest.h>

#include <parallel/device/meta/device.hpp>

namespace meta_device_test {
namespace {

TEST_CASE("meta::device: counts bytes and returns buffers without memory") {
  parallel::meta::device device;
  auto const a = device.allocate<double>(1000);
  auto const b = device.allocate_zeroed<char>(std::size_t{1} << 50);
  CHECK(a.data() == nullptr);
  CHECK(a.size() == 1000);
  CHECK(b.size() == std::size_t{1} << 50);
  CHECK(device.bytes() == 8000 + (std::size_t{1} << 50));
}

TEST_CASE("meta::stream: runs nothing and counts operations") {
  parallel::meta::stream stream;
  bool ran = false;
  stream.enqueue([&] { ran = true; });
  stream.wait(stream.record());
  CHECK(stream.record().ready());
  stream.synchronize();
  stream.count(10);
  stream.count(32);
  CHECK_FALSE(ran);
  CHECK(stream.operations() == 42);
}

TEST_CASE("meta::stream: take_scratch returns the largest scratch since the last call") {
  parallel::meta::stream stream({.deterministic = true});
  CHECK(stream.options().deterministic);
  stream.need_scratch(7);
  stream.need_scratch(3);
  CHECK(stream.take_scratch() == 7);
  CHECK(stream.take_scratch() == 0);
}

}  // namespace
}  // namespace meta_device_test
