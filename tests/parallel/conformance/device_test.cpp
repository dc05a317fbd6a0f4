// The host device conforms to the laws of devices; for devices that break a law, the error names
// it.
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

/// The event of a stream that runs tasks at once: always reached.
struct instant {
  [[nodiscard]] bool ready() const { return true; }
  void wait() const {}
};

/// Runs tasks when they are enqueued.
struct eager_stream {
  template <class Task>
  void enqueue(Task&& work) {
    work();
  }
  [[nodiscard]] instant record() const { return {}; }
  void wait(instant) const {}
  void synchronize() const {}
};

/// Runs every second task before its predecessor.
struct hasty_stream : host::stream {
  template <class Task>
  void enqueue(Task work) {
    if (!held) {
      held = work;
      return;
    }
    host::stream::enqueue(std::move(work));
    host::stream::enqueue(std::exchange(held, nullptr));
  }
  std::function<void()> held;
};

/// Waits for no event.
struct deaf_stream : host::stream {
  void wait(host::event const&) {}
};

/// Ignores exceptions of tasks.
struct mute_stream : host::stream {
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
  CHECK(message_of([] { conformance::check_order_of_tasks<hasty_stream>(); }) ==
        "stream: task 0 did not run in the order of enqueueing");
  CHECK(message_of([] { conformance::check_asynchrony<eager_stream>(); }) ==
        "stream: enqueue waits for its task, or streams wait for each other");
  CHECK(message_of([] { conformance::check_events<deaf_stream>(); }) ==
        "event: a stream did not wait for it");
  CHECK(message_of([] { conformance::check_failures<mute_stream>(); }) ==
        "stream: a task's failure became: nothing");
}

/// Memory that is neither aligned nor zeroed.
struct dirty_device : host::device {
  template <class T>
  [[nodiscard]] buffer<T> allocate_zeroed(std::size_t count) const {
    auto out = allocate<T>(count);
    std::fill_n(out.data(), count, T{7});
    return out;
  }
};

/// Returns the same memory for all requests.
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
  CHECK(message_of([&] { conformance::check_memory(dirty); }) == "device: allocate_zeroed gives 7");
  shared_device shared;
  CHECK(message_of([&] { conformance::check_memory(shared); }) == "device: two buffers overlap");
}

}  // namespace device_laws_test
