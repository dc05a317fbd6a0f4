#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/device/host/stream.hpp>
#include <parallel/ops/host/parallel_for.hpp>

namespace stream_test {
namespace {

using parallel::host::event;
using parallel::host::stream;
using std::chrono_literals::operator""ms;

[[noreturn]] void break_down(char const* reason) { throw std::runtime_error(reason); }

TEST_CASE("host::stream: thousands of tasks run in the order of enqueueing") {
  stream s;
  std::vector<int> order;
  for (int i = 0; i < 20000; ++i) s.enqueue([&order, i] { order.push_back(i); });
  s.synchronize();
  std::vector<int> expected(20000);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(order == expected);
}

TEST_CASE("host::stream: enqueue does not wait for the task") {
  std::promise<void> open;
  stream s;
  bool has_run = false;
  s.enqueue([&, gate = open.get_future()] {
    gate.wait();
    has_run = true;
  });
  auto const mark = s.record();
  CHECK_FALSE(mark.ready());
  CHECK_FALSE(mark.wait_until(std::chrono::steady_clock::now() + 2ms));
  open.set_value();
  CHECK(mark.wait_until(std::chrono::steady_clock::now() + std::chrono::minutes(1)));
  CHECK(mark.ready());
  CHECK(has_run);
}

TEST_CASE("host::stream: enqueue blocks while the queue is full") {
  constexpr int capacity = 8;
  constexpr int count = 200;
  std::atomic<int> enqueued = 0;
  int run = 0;
  int max_queued = 0;  // tasks that were enqueued and had not run
  stream s({.max_queued_tasks = capacity});
  for (int i = 0; i < count; ++i) {
    s.enqueue([&, i] {
      // every task but the last ones sees a full queue
      while (enqueued < std::min(i + capacity / 2, count)) std::this_thread::yield();
      max_queued = std::max(max_queued, enqueued - i);
      ++run;
    });
    ++enqueued;
    (void)s.record();  // marks do not count
  }
  s.synchronize();
  CHECK(run == count);
  CHECK(max_queued > capacity / 2);
  CHECK(max_queued <=
        capacity + 2);  // the running task, and the one that its caller is about to count
}

TEST_CASE("host::stream: a full queue grows if its tasks wait for later ones") {
  std::promise<void> open;
  stream s({.max_queued_tasks = 2});
  s.enqueue([gate = open.get_future()] { gate.wait(); });
  for (int i = 0; i < 10; ++i) s.enqueue([] {});
  open.set_value();
  s.synchronize();
}

TEST_CASE("host::stream: a blocked enqueue rethrows a failure; the worker's never blocks") {
  std::promise<void> open;
  stream s({.max_queued_tasks = 1});
  s.enqueue([&] {
    for (int i = 0; i < 3; ++i) s.enqueue([] {});
    open.get_future().wait();
    break_down("broken");
  });
  std::thread other([&] { open.set_value(); });
  auto const fill = [&] {
    for (int i = 0; i < 100; ++i) s.enqueue([] {});
  };
  CHECK_THROWS_WITH(fill(), "broken");
  other.join();
}

TEST_CASE("host::event: reached when earlier work has run, whatever is enqueued later") {
  std::promise<void> open;
  stream s;
  int value = 0;
  s.enqueue([&] { value = 1; });
  auto const early = s.record();
  s.enqueue([gate = open.get_future()] { gate.wait(); });
  auto const late = s.record();
  early.wait();
  CHECK(value == 1);
  CHECK_FALSE(late.ready());
  open.set_value();
  late.wait();
  late.wait();  // repeatedly
  CHECK(late.ready());
}

TEST_CASE("host::stream: later tasks wait for another stream's event") {
  std::promise<void> open;
  stream producer;
  stream consumer;
  int value = 0;
  int seen = -1;
  producer.enqueue([&, gate = open.get_future()] {
    gate.wait();
    value = 7;
  });
  consumer.wait(producer.record());
  consumer.enqueue([&] { seen = value; });
  auto const consumed = consumer.record();
  CHECK_FALSE(consumed.ready());
  open.set_value();
  consumed.wait();
  CHECK(seen == 7);
}

TEST_CASE("host::stream: two streams alternate on one value thousands of times without a lock") {
  stream left;
  stream right;
  long value = 0;  // only events order the accesses
  for (int i = 0; i < 2000; ++i) {
    left.enqueue([&] { value += 1; });
    right.wait(left.record());
    right.enqueue([&] { value *= 3; });
    right.enqueue([&] { value %= 1000003; });
    left.wait(right.record());
  }
  left.synchronize();
  long expected = 0;
  for (int i = 0; i < 2000; ++i) expected = (expected + 1) * 3 % 1000003;
  CHECK(value == expected);
}

TEST_CASE("host::stream: many threads enqueue; the tasks of each thread keep their order") {
  constexpr int producers = 4;
  constexpr int tasks = 500;
  stream s;
  std::vector<int> last(producers, -1);
  int out_of_order = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t p = 0; p < producers; ++p)
      threads.emplace_back([&, p] {
        for (int i = 0; i < tasks; ++i)
          s.enqueue([&, p, i] {
            out_of_order += last[p] == i - 1 ? 0 : 1;
            last[p] = i;
          });
      });
  }
  s.synchronize();
  CHECK(out_of_order == 0);
  CHECK(last == std::vector<int>(producers, tasks - 1));
}

TEST_CASE("host::stream: after a failure, later tasks are skipped and the failure is rethrown") {
  stream s;
  int ran = 0;
  s.enqueue([&] { ++ran; });
  auto const mark_before = s.record();
  s.enqueue([] { break_down("the first failure"); });
  event const mark_after = s.record();
  CHECK_NOTHROW(mark_before.wait());
  CHECK_THROWS_WITH_AS(mark_after.wait(), "the first failure", std::runtime_error);
  CHECK(mark_after.ready());
  // the next enqueue rethrows the failure, and its task does not run
  CHECK_THROWS_WITH_AS(s.enqueue([&] { ++ran; }), "the first failure", std::runtime_error);
  CHECK_THROWS_WITH_AS(s.synchronize(), "the first failure", std::runtime_error);
  CHECK(ran == 1);
}

TEST_CASE("host::stream: the first of two failures is reported; the second task does not run") {
  std::promise<void> open;
  stream s;
  bool second = false;
  s.enqueue([gate = open.get_future()] {
    gate.wait();
    break_down("one");
  });
  s.enqueue([&] {
    second = true;
    break_down("two");
  });
  open.set_value();
  CHECK_THROWS_WITH_AS(s.synchronize(), "one", std::runtime_error);
  CHECK_FALSE(second);
}

TEST_CASE("host::stream: a failure propagates along a chain of waiting streams") {
  stream first;
  stream second;
  stream third;
  bool ran = false;
  std::promise<void> open;
  first.enqueue([gate = open.get_future()] {
    gate.wait();
    break_down("out of paper");
  });
  second.wait(first.record());
  third.wait(second.record());
  third.enqueue([&] { ran = true; });
  open.set_value();
  CHECK_THROWS_WITH_AS(third.synchronize(), "out of paper", std::runtime_error);
  CHECK_THROWS_WITH_AS(second.synchronize(), "out of paper", std::runtime_error);
  CHECK_FALSE(ran);
  // other streams are not affected
  stream fourth;
  fourth.enqueue([&] { ran = true; });
  CHECK_NOTHROW(fourth.synchronize());
  CHECK(ran);
}

TEST_CASE("host::event: wait_until rethrows the failure") {
  stream s;
  s.enqueue([] { break_down("late"); });
  auto const mark = s.record();
  CHECK_THROWS_WITH_AS(static_cast<void>(mark.wait_until(std::chrono::steady_clock::now() +
                                                         std::chrono::minutes(1))),
                       "late", std::runtime_error);
}

TEST_CASE("host::stream: a task may own move-only state, freed before the next task starts") {
  stream s;
  auto owned = std::make_shared<int>(5);
  std::weak_ptr<int> const alive = owned;
  int seen = 0;
  bool freed = false;
  auto movable = std::make_unique<int>(6);
  s.enqueue([&seen, owned = std::move(owned), movable = std::move(movable)] {
    seen = *owned + *movable;
  });
  s.enqueue([&freed, alive] { freed = alive.expired(); });
  s.synchronize();
  CHECK(seen == 11);
  CHECK(freed);
}

TEST_CASE("host::stream: the destructor runs the enqueued tasks first") {
  std::vector<int> order;
  {
    stream s;
    for (int i = 0; i < 1000; ++i) s.enqueue([&order, i] { order.push_back(i); });
  }
  CHECK(order.size() == 1000);
}

TEST_CASE("host::stream: a failed stream is destroyed without a throw; its events stay valid") {
  std::optional<stream> s(std::in_place);
  s->enqueue([] { break_down("nobody asked"); });
  auto const mark = s->record();
  s.reset();
  CHECK(mark.ready());
  CHECK_THROWS_AS(mark.wait(), std::runtime_error);
}

TEST_CASE("host::stream: hundreds of streams, idle and busy, are created and destroyed") {
  std::atomic<int> ran = 0;
  for (int i = 0; i < 300; ++i) {
    stream idle;
    stream busy({.threads = 2, .cores = {0}});
    busy.enqueue([&] { ++ran; });
    if (i % 2 == 0) busy.synchronize();
  }
  CHECK(ran == 300);
}

/// Cores that the calling thread may run on.
std::vector<int> own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  for (unsigned core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(static_cast<int>(core));
  return cores;
}

TEST_CASE("host::stream: threads have a core each if there are enough, else share them") {
  auto const available_cores = own_cores();
  if (available_cores.size() < 2) {
    MESSAGE("skipped: one core");
    return;
  }
  for (int const threads : {1, 2, 3}) {
    CAPTURE(threads);
    std::vector<int> const cores = {available_cores[1], available_cores[0]};
    stream s({.threads = threads, .cores = cores});
    std::vector<std::vector<int>> seen(static_cast<std::size_t>(threads));
    std::vector<std::thread::id> threads_seen(seen.size());
    s.enqueue([&] {
      parallel::host::parallel_for(threads, threads, 1, [&](parallel::index i, parallel::index) {
        seen[static_cast<std::size_t>(i)] = own_cores();
        threads_seen[static_cast<std::size_t>(i)] = std::this_thread::get_id();
      });
    });
    s.synchronize();
    bool const has_helpers =
        threads > 1 && threads_seen[1] != threads_seen[0];  // false without OpenMP
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (threads != 2)
        CHECK(seen[i] == std::vector<int>{available_cores[0], available_cores[1]});
      else
        CHECK(seen[i] == std::vector<int>{has_helpers ? cores[i] : cores[0]});
    }
  }
  CHECK(own_cores() == available_cores);
}

TEST_CASE("host::stream: tasks run on the worker thread") {
  stream s;
  std::thread::id id;
  s.enqueue([&] { id = std::this_thread::get_id(); });
  s.synchronize();
  CHECK(id != std::this_thread::get_id());
}

}  // namespace
}  // namespace stream_test
