// check_device accepts host::device, and rejects devices that break a law by an error that names
// the law.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <utility>

#include <parallel/conformance/device.hpp>
#include <parallel/device/host/device.hpp>

namespace device_laws_test {

using namespace parallel;
using conformance::message_of;

TEST_CASE("check_device: host::device conforms to the laws") {
  host::device device;
  CHECK_NOTHROW(conformance::check_device(device));
}

/// The event of a stream that runs each task inside `enqueue`: it is always ready.
struct reached_event {
  [[nodiscard]] bool ready() const { return true; }
  void wait() const {}
};

/// A fault: runs each task inside `enqueue`.
struct eager_stream {
  template <class Task>
  void enqueue(Task&& work) {
    work();
  }
  [[nodiscard]] reached_event record() const { return {}; }
  void wait(reached_event) const {}
  void synchronize() const {}
};

/// A fault: runs every second task before its predecessor.
struct swapping_stream : host::stream {
  template <class Task>
  void enqueue(Task work) {
    if (!delayed_task) {
      delayed_task = work;
      return;
    }
    host::stream::enqueue(std::move(work));
    host::stream::enqueue(std::exchange(delayed_task, nullptr));
  }
  std::function<void()> delayed_task;
};

/// A fault: does not wait for events.
struct unwaiting_stream : host::stream {
  void wait(host::event const&) {}
};

/// A fault: drops exceptions of tasks.
struct silencing_stream : host::stream {
  template <class Task>
  void enqueue(Task&& work) {
    host::stream::enqueue([work = std::forward<Task>(work)]() mutable {
      try {
        work();
      } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): the fault
      }
    });
  }
};

TEST_CASE("check_device: the error names the law that a stream breaks") {
  CHECK(message_of([] { conformance::check_order_of_tasks<swapping_stream>(); }) ==
        "stream: task 0 did not run in the order of enqueueing");
  CHECK(message_of([] { conformance::check_asynchrony<eager_stream>(); }) ==
        "stream: enqueue waits for its task, or streams wait for each other");
  CHECK(message_of([] { conformance::check_events<unwaiting_stream>(); }) ==
        "event: a stream did not wait for it");
  CHECK(message_of([] { conformance::check_failures<silencing_stream>(); }) ==
        "stream: a task threw \"the task's reason\", but the stream reported: nothing");
}

/// A fault: allocate_zeroed returns memory that is not zeroed.
struct dirty_device : host::device {
  template <class T>
  [[nodiscard]] buffer<T> allocate_zeroed(std::size_t count) const {
    auto out = allocate<T>(count);
    std::fill_n(out.data(), count, T{7});
    return out;
  }
};

/// A fault: returns the same memory for all requests.
struct shared_device : host::device {
  template <class T>
  [[nodiscard]] buffer<T> allocate_zeroed(std::size_t count) {
    if (all_.size() == 0) all_ = host::device::allocate_zeroed<std::uint64_t>(200000);
    std::fill_n(all_.data(), count, std::uint64_t{0});
    return {nullptr, all_.data(), count};
  }
  buffer<std::uint64_t> all_;
};

TEST_CASE("check_memory: the error names the law that a device breaks") {
  dirty_device dirty;
  CHECK(message_of([&] { conformance::check_memory(dirty); }) ==
        "device: allocate_zeroed returned memory with an element 7");
  shared_device shared;
  CHECK(message_of([&] { conformance::check_memory(shared); }) == "device: two buffers overlap");
}

}  // namespace device_laws_test
