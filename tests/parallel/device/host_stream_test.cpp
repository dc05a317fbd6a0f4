#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <parallel/device/host/stream.hpp>

namespace host_stream_test {

using namespace std::chrono_literals;
using parallel::host::event;
using parallel::host::stream;

}  // namespace host_stream_test

TEST_CASE("a host stream runs its tasks in order, beside the caller") {
  using namespace host_stream_test;
  std::vector<int> order;
  event go;
  stream s;
  s.wait(go);
  for (int i = 0; i < 100; ++i) s.enqueue([&order, i] { order.push_back(i); });
  CHECK(order.empty());  // nothing ran: the caller is not held up, the stream is
  go.complete();
  s.synchronize();
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("a host stream waits for events of another") {
  using namespace host_stream_test;
  stream first;
  stream second;
  int value = 0;
  for (int i = 0; i < 200; ++i) {
    first.enqueue([&] { ++value; });
    second.wait(first.record());
    second.enqueue([&] { value *= 3; });
    first.wait(second.record());
    first.enqueue([&] { value %= 1000; });
  }
  first.synchronize();
  int expected = 0;
  for (int i = 0; i < 200; ++i) expected = (expected + 1) * 3 % 1000;
  CHECK(value == expected);
}

TEST_CASE("a task may own what can only be moved, and frees it before the next starts") {
  using namespace host_stream_test;
  stream s;
  auto owned = std::make_shared<int>(5);
  std::weak_ptr<int> const watch = owned;
  bool freed = false;
  s.enqueue([owned = std::make_unique<std::shared_ptr<int>>(std::move(owned))] {});
  s.enqueue([&] { freed = watch.expired(); });
  s.synchronize();
  CHECK(freed);
}

TEST_CASE("the first failure stops a stream and reaches all who wait for it") {
  using namespace host_stream_test;
  stream s;
  stream dependent;
  event go;
  bool ran = false;
  s.wait(go);
  auto const before = s.record();
  s.enqueue([] { throw std::runtime_error("first"); });
  s.enqueue([] { throw std::runtime_error("second"); });
  s.enqueue([&] { ran = true; });
  auto const after = s.record();
  dependent.wait(after);
  dependent.enqueue([&] { ran = true; });
  go.complete();
  CHECK_NOTHROW(before.wait());
  CHECK_THROWS_WITH(after.wait(), "first");
  CHECK_THROWS_WITH((void)after.wait_until(std::chrono::steady_clock::now()), "first");
  CHECK_THROWS_WITH(s.synchronize(), "first");
  CHECK_THROWS_WITH(s.enqueue([] {}), "first");
  CHECK_THROWS_WITH(dependent.synchronize(), "first");
  CHECK_FALSE(ran);
}

TEST_CASE("waiting with a deadline gives up without harm") {
  using namespace host_stream_test;
  stream s;
  event go;
  s.wait(go);
  auto const mark = s.record();
  CHECK_FALSE(mark.wait_until(std::chrono::steady_clock::now() + 2ms));
  CHECK_FALSE(mark.ready());
  go.complete();
  CHECK(mark.wait_until(std::chrono::steady_clock::now() + 60s));
  CHECK(mark.ready());
}

TEST_CASE("a stream's destructor finishes what was enqueued") {
  using namespace host_stream_test;
  std::atomic<int> count = 0;
  {
    stream s;
    for (int i = 0; i < 50; ++i)
      s.enqueue([&] {
        std::this_thread::sleep_for(100us);
        ++count;
      });
  }
  CHECK(count == 50);
}
