#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>

namespace request_test {

using namespace parallel;
using namespace std::chrono_literals;

/// Blocks a stream until it is opened.
struct gate {
  host::event opened;
  void hold(host::stream& s) const { s.wait(opened); }
  void open() const { opened.complete(); }
};

/// A stream of a device that cannot wait for events of the host, so that its caller waits.
struct blocking_stream {
  struct event_type {};
  gate const* gate_to_open = nullptr;
  void wait(host::event const& mark) const {
    gate_to_open->open();
    mark.wait();
  }
};

}  // namespace request_test

TEST_CASE("request: a default request is complete") {
  using namespace request_test;
  request empty;
  empty.wait();
  CHECK(empty.wait_until(std::chrono::steady_clock::now()));
  host::stream s;
  empty.wait_on(s);
  empty.keep(std::make_shared<int>(1));
}

TEST_CASE("request: wait_until returns whether the operation has run") {
  using namespace request_test;
  single alone;
  host::stream s;
  gate const closed;
  closed.hold(s);
  std::vector<float> x(3);
  auto pending = alone.all_reduce(s, std::span(x), reduction::sum);
  CHECK_FALSE(pending.wait_until(std::chrono::steady_clock::now() + 5ms));
  closed.open();
  CHECK(pending.wait_until(std::chrono::steady_clock::now() + 60s));
}

TEST_CASE("request: the operation keeps buffers alive until it has run, and no longer") {
  using namespace request_test;
  single alone;
  host::stream s;
  gate const closed;
  closed.hold(s);
  auto owner = std::make_shared<std::vector<float>>(3);
  std::weak_ptr<std::vector<float>> const watch = owner;
  host::stream other;
  {
    auto pending = alone.all_reduce(s, std::span(*owner), reduction::sum);
    pending.keep(std::move(owner)).wait_on(other);
  }  // nobody waits on the host; the request is gone
  CHECK_FALSE(watch.expired());
  closed.open();
  other.synchronize();
  CHECK(watch.expired());
  auto later_owner = std::make_shared<int>(1);
  std::weak_ptr<int> const later_watch = later_owner;
  request completed = alone.barrier(s);
  completed.wait();
  completed.keep(std::move(later_owner));
  CHECK(later_watch.expired());
}

TEST_CASE("request: the destructor of a request that nobody waited for waits") {
  using namespace request_test;
  single alone;
  host::stream s;
  std::atomic<bool> has_run = false;
  s.enqueue([&] {
    std::this_thread::sleep_for(20ms);
    has_run = true;
  });
  { auto const pending = alone.barrier(s); }
  CHECK(has_run);
}

TEST_CASE("request: a failure before the operation reaches every waiter") {
  using namespace request_test;
  single alone;
  host::stream s;
  host::stream other;
  gate const closed;
  closed.hold(s);
  s.enqueue([] { throw std::runtime_error("broken before"); });
  auto pending = alone.barrier(s);
  pending.wait_on(other);
  closed.open();
  CHECK_THROWS_WITH(pending.wait(), "broken before");
  CHECK_THROWS_WITH(other.synchronize(), "broken before");
}

TEST_CASE(
    "request: a move takes the pending operation along, and assignment waits for the old one") {
  using namespace request_test;
  single alone;
  host::stream s;
  std::vector<float> in{1, 2};
  std::vector<float> out(2);
  request first = alone.all_gather(s, std::span(out), in);
  request second = std::move(first);
  first.wait();  // moved from: done
  second = alone.barrier(s);
  CHECK(out == in);
  second.wait();
}

TEST_CASE("request: a stream that blocks its caller is reported as a wait of that thread") {
  using namespace request_test;
  struct recording_state final : abortable {
    std::vector<std::string> events;
    void abort(std::string const&) override {}
    void begin_host_wait(host_wait const& wait) override {
      events.emplace_back(wait.is_over() ? "waits for nothing" : "waits");
    }
    void end_host_wait() override { events.emplace_back("goes on"); }
  };
  auto const state = std::make_shared<recording_state>();
  host::stream s;
  gate const closed;
  closed.hold(s);
  blocking_stream device{&closed};
  auto pending = detail::enqueue(s, {.state = state}, {}, [] {});
  host::stream other;
  pending.wait_on(other);  // blocks no host thread
  CHECK(state->events.empty());
  pending.wait_on(device);
  CHECK(state->events == std::vector<std::string>{"waits", "goes on"});
}
