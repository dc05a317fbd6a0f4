// The types that model the concepts of devices and streams; a device with its own stream type
// conforms to the laws.
#include <doctest/doctest.h>

#include <parallel/conformance/device.hpp>
#include <parallel/device/concepts.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/device/meta/device.hpp>
#include <parallel/ops/reference.hpp>

#include "support/devices/guarded_device.hpp"
#include "support/devices/queued_device.hpp"

namespace concepts_test {

using namespace parallel;

static_assert(device<host::device> && device<guarded::device> && device<queued::device>);
static_assert(memory_device<meta::device> && !device<meta::device>);
static_assert(stream<host::stream> && stream<meta::stream> && stream<reference::stream> &&
              stream<queued::stream>);
static_assert(task_stream<host::stream> && task_stream<queued::stream>);

struct without_events {
  void synchronize() {}
};
struct without_upload : host::device {
  void upload() = delete;
};
static_assert(!stream<without_events> && !device<without_upload> && !device<host::stream>);

// The worker of a host stream can wait for any event.
static_assert(waits_asynchronously<host::stream, host::event>);
static_assert(waits_asynchronously<host::stream, queued::event>);
static_assert(waits_asynchronously<queued::stream, queued::event>);
static_assert(!waits_asynchronously<queued::stream, host::event>);

TEST_CASE("queued_stream: the device conforms to the laws") {
  for (int const threads : {1, 3}) {
    queued::device device(threads);
    CHECK_NOTHROW(conformance::check_device(device));
  }
}

TEST_CASE("queued_stream: a paused device does not block its callers") {
  queued::device device;
  queued::stream s(device.compute_options()), other(device.compute_options());
  device.engine().pause();
  int order = 0;
  s.enqueue([&] { order = 1; });
  other.wait(s.record());
  other.enqueue([&] { order = order * 10 + 2; });
  auto const end = other.record();
  CHECK(!end.ready());
  CHECK(device.engine().host()->blocked_host_waits == 0);
  end.wait();  // lets the device continue
  CHECK(device.engine().host()->blocked_host_waits == 1);
  CHECK(order == 12);
}

}  // namespace concepts_test
