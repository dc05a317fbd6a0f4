// The laws of devices whose memory the host can reach: streams run their tasks in order and beside
// each other, events order them, failures pass on, memory is whole and counted.
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

/// What `enqueue` takes runs one after another; `synchronize` waits for all of it.
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

/// Enqueueing waits for nothing, and two streams run beside each other: a task of one may wait for
/// a task of the other that was enqueued later.
template <class Stream>
void check_asynchrony() {
  Stream first, second;
  std::atomic<bool> open = false;
  std::atomic<bool> in_time = false;
  first.enqueue([&] {
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!open && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    in_time = open.load();
  });
  auto const mark = first.record();
  bool const early = mark.ready();
  second.enqueue([&] { open = true; });
  second.synchronize();
  first.synchronize();
  require(!early && in_time, "stream: enqueue waits for its task, or streams wait for each other");
  require(mark.ready(), "event: not ready although its stream has run everything");
}

/// A stream that waits for an event runs later tasks after what the event stands for.
template <class Stream>
void check_events() {
  Stream left, right;
  std::uint64_t value = 1;  // ordered by events alone
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

/// After a failure nothing runs any more; whoever waits for the stream or its events is told why,
/// also through another stream.
template <class Stream>
void check_failures() {
  Stream s, other;
  std::atomic<int> ran = 0;
  s.enqueue([] { throw std::runtime_error("the task's reason"); });
  auto const told = [](auto&& f) -> std::string {
    try {
      f();
    } catch (std::exception const& thrown) {
      return thrown.what();
    }
    return "nothing";
  };
  auto const mark = s.record();
  auto const by_event = told([&] { mark.wait(); });
  static_cast<void>(told([&] { s.enqueue([&] { ++ran; }); }));
  auto const by_stream = told([&] { s.synchronize(); });
  auto const by_other = told([&] {
    other.wait(mark);
    other.enqueue([&] { ++ran; });
    other.synchronize();
  });
  for (auto const& words : {by_event, by_stream, by_other})
    require(words == "the task's reason", "stream: a task's failure became: ", words);
  require(ran == 0, "stream: ", ran.load(), " tasks ran after one had failed");
}

/// Buffers are aligned to 64 bytes, apart from each other, zeroed when asked for, counted while
/// they live; what no machine has is refused by an `error`.
template <class Device>
void check_memory(Device& device) {
  std::size_t const before = device.bytes();
  {
    std::vector<decltype(device.template allocate_zeroed<std::uint64_t>(1))> all;
    std::size_t bytes = 0;
    for (std::size_t count : {1u, 3u, 64u, 1000u, 100000u}) {
      all.push_back(device.template allocate_zeroed<std::uint64_t>(count));
      bytes += count * sizeof(std::uint64_t);
      auto& one = all.back();
      require(one.size() == count, "device: asked for ", count, " elements, got ", one.size());
      require(reinterpret_cast<std::uintptr_t>(one.data()) % 64 == 0,
              "device: memory is not aligned to 64 bytes");
      for (std::size_t i = 0; i < count; ++i)
        require(one.data()[i] == 0, "device: allocate_zeroed gives ", one.data()[i]);
      for (std::size_t i = 0; i < count; ++i) one.data()[i] = hash(count + i);
    }
    for (auto const& one : all)
      for (std::size_t i = 0; i < one.size(); ++i)
        require(one.data()[i] == hash(one.size() + i), "device: two buffers overlap");
    require(device.bytes() - before >= bytes, "device: ", bytes, " bytes live, but it counts ",
            device.bytes() - before);
    require(device.peak_bytes() >= device.bytes(), "device: the peak is below what lives");
  }
  require(device.bytes() == before, "device: freed memory is still counted");
  bool refused = false;
  try {
    static_cast<void>(device.template allocate<double>(static_cast<std::size_t>(-1) / 16));
  } catch (error const&) {
    refused = true;
  }
  require(refused, "device: gives memory that no machine has");
}

/// All of it.
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
