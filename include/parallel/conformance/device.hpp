// device: tests of the laws for devices whose memory the host can reach. Streams run their tasks in
// order and concurrently with each other, events order them, failures propagate, and memory is
// valid and counted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <parallel/conformance/values.hpp>
#include <parallel/core/error.hpp>

namespace parallel::conformance {

/// Tasks run in the order of `enqueue`, and `synchronize` waits for all of them.
template <class Stream>
void check_order_of_tasks() {
  constexpr int tasks = 5000;
  Stream s;
  std::vector<int> order;
  for (int i = 0; i < tasks; ++i) s.enqueue([&order, i] { order.push_back(i); });
  s.synchronize();
  require(order.size() == tasks, "stream: ", tasks, " tasks were enqueued and ", order.size(),
          " had run when synchronize returned");
  for (int i = 0; i < tasks; ++i)
    require(order[static_cast<std::size_t>(i)] == i, "stream: task ", i,
            " did not run in the order of enqueueing");
}

/// `enqueue` does not wait, and two streams run concurrently: a task of one stream may wait for a
/// task that is enqueued later on another stream.
template <class Stream>
void check_asynchrony() {
  Stream first, second;
  std::atomic<bool> is_open = false;
  std::atomic<bool> was_opened = false;
  first.enqueue([&] {
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!is_open && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    was_opened = is_open.load();
  });
  auto const mark = first.record();
  bool const was_ready_early = mark.ready();
  second.enqueue([&] { is_open = true; });
  second.synchronize();
  first.synchronize();
  require(!was_ready_early && was_opened,
          "stream: enqueue waits for its task, or streams wait for each other");
  require(mark.ready(), "event: not ready although its stream has run everything");
}

/// A stream that waits for an event runs later tasks only after the event is reached.
template <class Stream>
void check_events() {
  Stream left, right;
  std::uint64_t value = 1;  // only events order the accesses
  std::uint64_t expected = 1;
  for (std::uint64_t i = 0; i < 500; ++i) {
    left.enqueue([&value, i] {
      if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      value += i;
    });
    right.wait(left.record());
    right.enqueue([&value] { value *= 3; });
    left.wait(right.record());
    expected = (expected + i) * 3;
  }
  left.synchronize();
  require(value == expected, "event: a stream did not wait for it");
}

/// After a failure the stream runs no more tasks. Waiting for the stream, for its events, or for a
/// stream that waits for them, rethrows the failure.
template <class Stream>
void check_failures() {
  Stream s, other;
  std::atomic<int> run_count = 0;
  s.enqueue([] { throw std::runtime_error("the task's reason"); });
  auto const message_of_call = [](auto&& f) -> std::string {
    try {
      f();
    } catch (std::exception const& thrown) {
      return thrown.what();
    }
    return "nothing";
  };
  auto const mark = s.record();
  auto const by_event = message_of_call([&] { mark.wait(); });
  static_cast<void>(message_of_call([&] { s.enqueue([&] { ++run_count; }); }));
  auto const by_stream = message_of_call([&] { s.synchronize(); });
  auto const by_other = message_of_call([&] {
    other.wait(mark);
    other.enqueue([&] { ++run_count; });
    other.synchronize();
  });
  for (auto const& message : {by_event, by_stream, by_other})
    require(message == "the task's reason",
            "stream: a task threw \"the task's reason\", but the stream reported: ", message);
  require(run_count == 0, "stream: ", run_count.load(), " tasks ran after one had failed");
}

/// Buffers are aligned to 64 bytes, do not overlap, are zeroed on request, and are counted while
/// they live. A request for more memory than any machine has throws `error`.
template <class Device>
void check_memory(Device& device) {
  std::size_t const bytes_before = device.bytes();
  {
    std::vector<decltype(device.template allocate_zeroed<std::uint64_t>(1))> buffers;
    std::size_t bytes = 0;
    for (std::size_t count : {1u, 3u, 64u, 1000u, 100000u}) {
      buffers.push_back(device.template allocate_zeroed<std::uint64_t>(count));
      bytes += count * sizeof(std::uint64_t);
      auto& memory = buffers.back();
      require(memory.size() == count, "device: asked for ", count, " elements, got ",
              memory.size());
      require(reinterpret_cast<std::uintptr_t>(memory.data()) % 64 == 0,
              "device: memory is not aligned to 64 bytes");
      for (std::size_t i = 0; i < count; ++i)
        require(memory.data()[i] == 0, "device: allocate_zeroed returned memory with an element ",
                memory.data()[i]);
      for (std::size_t i = 0; i < count; ++i) memory.data()[i] = hash(count + i);
    }
    for (auto const& memory : buffers)
      for (std::size_t i = 0; i < memory.size(); ++i)
        require(memory.data()[i] == hash(memory.size() + i), "device: two buffers overlap");
    require(device.bytes() - bytes_before >= bytes, "device: ", bytes,
            " bytes live, but it counts ", device.bytes() - bytes_before);
    require(device.peak_bytes() >= device.bytes(), "device: the peak is below what lives");
  }
  require(device.bytes() == bytes_before, "device: freed memory is still counted");
  bool was_refused = false;
  try {
    static_cast<void>(device.template allocate<double>(static_cast<std::size_t>(-1) / 16));
  } catch (error const&) {
    was_refused = true;
  }
  require(was_refused, "device: gives memory that no machine has");
}

/// Runs all tests.
template <class Device>
void check_device(Device& device) {
  using stream = typename Device::stream_type;
  check_order_of_tasks<stream>();
  check_asynchrony<stream>();
  check_events<stream>();
  check_failures<stream>();
  check_memory(device);
}

}  // namespace parallel::conformance
