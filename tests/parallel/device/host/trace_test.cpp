// Traces of host streams.
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include <parallel/device/host/stream.hpp>

namespace trace_test {

using parallel::host::stream;
using parallel::host::trace;

void pretend_impl(stream& s) {
  s.enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); });
}

TEST_CASE("trace: tasks are recorded in order, with the enqueuing function's name and times") {
  trace record;
  {
    stream s({.record = &record});
    pretend_impl(s);  // not yet recording
    s.synchronize();
    record.start();
    pretend_impl(s);
    s.enqueue([] {}, {"all_reduce", 640});
    s.synchronize();
    record.stop();
    pretend_impl(s);
  }
  auto const tasks = record.take();
  REQUIRE(tasks.size() == 2);
  CHECK(tasks[0].label.name == "pretend_impl");
  CHECK(tasks[0].end - tasks[0].begin >= std::chrono::milliseconds(2));
  CHECK(tasks[1].label.name == "all_reduce");
  CHECK(tasks[1].label.bytes == 640);
  CHECK(tasks[0].end <= tasks[1].begin);
  CHECK(tasks[1].begin <= tasks[1].end);
  CHECK(record.take().empty());
}

TEST_CASE("trace: overlap of two streams is visible, and a wait is a separate task") {
  trace first, second;
  {
    stream a({.record = &first});
    stream b({.record = &second});
    first.start();
    second.start();
    a.enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, {"compute"});
    b.enqueue([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, {"exchanges"});
    b.wait(a.record());
    b.synchronize();
  }
  auto const a = first.take();
  auto const b = second.take();
  REQUIRE(a.size() == 1);
  REQUIRE(b.size() == 2);
  CHECK(b[0].begin < a[0].end);
  CHECK(a[0].begin < b[0].end);
  CHECK(b[1].label.name == "wait");
}

}  // namespace trace_test
