// The fake CUDA runtime is as strict about ordering, memory and captures as it promises.
#include "fake_cuda/runtime.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace fake_runtime_test {

cudaStream_t make_stream(int device = 0) {
  REQUIRE(cudaSetDevice(device) == cudaSuccess);
  cudaStream_t s = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  return s;
}
cudaEvent_t make_event() {
  cudaEvent_t e = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&e, cudaEventBlockingSync) == cudaSuccess);
  return e;
}
int* make_ints(std::size_t count) {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, count * sizeof(int)) == cudaSuccess);
  return static_cast<int*>(memory);
}
cudaError_t set(cudaStream_t s, int* target, int value) {
  return fake_cuda::enqueue(s, "set", [=] { *target = value; });
}
int read(cudaStream_t s, int const* target) {
  int value = 0;
  CHECK(cudaMemcpyAsync(&value, target, sizeof value, cudaMemcpyDeviceToHost, s) == cudaSuccess);
  return value;
}
/// Runs a test on its own machine, of which no stream, event or memory may be alive
/// afterwards.
template <class Test>
void with_machine(fake_cuda::machine_options const& options, Test const& test) {
  fake_cuda::restart(options);
  test();
  CHECK(fake_cuda::live_objects() == 0);
  fake_cuda::restart();
}

TEST_CASE("fake CUDA: streams run concurrently, and wait for each other only by events") {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    with_machine({.seed = seed}, [] {
      auto* const s = make_stream();
      auto* const t = make_stream();
      auto* const mark = make_event();
      auto* const x = make_ints(1);
      std::promise<void> gate;
      CHECK(fake_cuda::enqueue(s, "gate", [&] { gate.get_future().wait(); }) == cudaSuccess);
      CHECK(set(s, x, 1) == cudaSuccess);
      CHECK(cudaEventRecord(mark, s) == cudaSuccess);
      CHECK(cudaEventQuery(mark) == cudaErrorNotReady);
      CHECK(cudaGetLastError() == cudaErrorNotReady);  // as CUDA does
      CHECK(cudaGetLastError() == cudaSuccess);
      CHECK(read(t, x) == -1);  // poison: stream t has not waited
      CHECK(cudaStreamWaitEvent(t, mark, 0) == cudaSuccess);
      gate.set_value();
      CHECK(read(t, x) == 1);
      CHECK(cudaEventQuery(mark) == cudaSuccess);
      CHECK((cudaFree(x) | cudaEventDestroy(mark) | cudaStreamDestroy(s) | cudaStreamDestroy(t)) ==
            cudaSuccess);
    });
  }
}

TEST_CASE("fake CUDA: the seed decides which of two streams lags behind") {
  int first = 0, second = 0;
  for (std::uint64_t seed = 1; seed < 40; ++seed)
    with_machine({.seed = seed}, [&] {
      auto* const s = make_stream();
      auto* const t = make_stream();
      std::atomic<int> turn = 0;
      int order_s = 0, order_t = 0;
      CHECK(fake_cuda::enqueue(s, "s", [&] { order_s = ++turn; }) == cudaSuccess);
      CHECK(fake_cuda::enqueue(t, "t", [&] { order_t = ++turn; }) == cudaSuccess);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      CHECK((cudaStreamSynchronize(s) | cudaStreamSynchronize(t)) == cudaSuccess);
      ++(order_s < order_t ? first : second);
      CHECK((cudaStreamDestroy(s) | cudaStreamDestroy(t)) == cudaSuccess);
    });
  CHECK(first > 5);
  CHECK(second > 3);
}

TEST_CASE("fake CUDA: a copy reads pageable memory before it returns, pinned memory when it runs") {
  with_machine({}, [] {
    auto* const s = make_stream();
    auto* const x = make_ints(2);
    void* memory = nullptr;
    REQUIRE(cudaHostAlloc(&memory, sizeof(int), cudaHostAllocPortable) == cudaSuccess);
    auto* const pinned = static_cast<int*>(memory);
    int pageable = *pinned = 1;
    std::promise<void> gate;
    CHECK(fake_cuda::enqueue(s, "gate", [&] { gate.get_future().wait(); }) == cudaSuccess);
    auto const copy = [&](int* to, int const* from) {
      return cudaMemcpyAsync(to, from, sizeof(int), cudaMemcpyDefault, s);
    };
    CHECK((copy(x, &pageable) | copy(x + 1, pinned)) == cudaSuccess);
    pageable = *pinned = 2;
    gate.set_value();
    CHECK(read(s, x) == 1);
    CHECK(read(s, x + 1) == 2);
    CHECK(cudaMemcpyAsync(x + 1, pinned, 8, cudaMemcpyDefault, s) == cudaErrorInvalidValue);
    CHECK(fake_cuda::history().failures.back() ==
          "cudaMemcpyAsync: 8 bytes go beyond the end of memory of GPU 0");
    CHECK((cudaFreeHost(pinned) | cudaFree(x) | cudaStreamDestroy(s)) == cudaSuccess);
  });
}

TEST_CASE("fake CUDA: a lazy stream runs only the work that a thread waits for") {
  with_machine({.lazy = true}, [] {
    auto* const s = make_stream();
    auto* const t = make_stream();
    auto* const e = make_event();
    auto* const x = make_ints(3);
    int pageable = 0;
    CHECK((set(s, x, 1) | cudaEventRecord(e, s) | set(s, x + 1, 2)) == cudaSuccess);
    CHECK((cudaStreamWaitEvent(t, e, 0) | set(t, x + 2, 3)) == cudaSuccess);
    CHECK(cudaMemcpyAsync(&pageable, x + 2, sizeof(int), cudaMemcpyDefault, t) == cudaSuccess);
    CHECK(x[0] == -1);
    CHECK(pageable == 0);
    CHECK(cudaStreamSynchronize(t) == cudaSuccess);
    CHECK(x[0] == 1);
    CHECK(x[1] == -1);
    CHECK(pageable == 3);
    CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    CHECK(cudaEventQuery(e) == cudaSuccess);
    CHECK(x[1] == -1);
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(x[1] == 2);
    CHECK((cudaFree(x) | cudaEventDestroy(e) | cudaStreamDestroy(s) | cudaStreamDestroy(t)) ==
          cudaSuccess);
  });
}

TEST_CASE("fake CUDA: a kernel can use a peer's memory only after peer access was enabled") {
  struct arguments {
    int number;
    int* target;
  };
  for (bool const has_access : {false, true})
    with_machine({.devices = 2}, [&] {
      auto* const x = make_ints(3);
      auto* const s = make_stream(1);
      CHECK(fake_cuda::device_of(x) == 0);
      CHECK(fake_cuda::device_of(s) == 1);
      if (has_access) {
        CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaSuccess);
        CHECK(cudaDeviceEnablePeerAccess(0, 0) == cudaErrorPeerAccessAlreadyEnabled);
        CHECK(cudaGetLastError() == cudaErrorPeerAccessAlreadyEnabled);
      }
      auto const shared_arguments = std::make_shared<arguments>(arguments{7, x + 1});
      CHECK(fake_cuda::launch(
                s, {"seven", 1, 32, 0, std::as_bytes(std::span(shared_arguments.get(), 1))},
                [shared_arguments](auto) {
                  *shared_arguments->target = shared_arguments->number;
                }) == cudaSuccess);
      auto const status = cudaStreamSynchronize(s);
      CHECK((status == cudaSuccess) == has_access);
      if (!has_access) {
        CHECK(std::string(cudaGetErrorString(status)) ==
              "seven on GPU 1: it was given memory of GPU 0, to which GPU 1 has no access");
        CHECK(cudaGetLastError() == status);
        CHECK(cudaGetLastError() == status);  // the failure stays
        void* allocation = nullptr;
        CHECK(cudaMalloc(&allocation, 1) == status);
      }
      CHECK(cudaSetDevice(0) == cudaSuccess);
      CHECK((cudaFree(x)) == cudaSuccess);
      CHECK(cudaStreamDestroy(s) == cudaSuccess);
    });
}

TEST_CASE("fake CUDA: a write next to an allocation is found when it is freed") {
  with_machine({}, [] {
    auto* const x = make_ints(3);
    x[3] = 0;
    CHECK(cudaFree(x) == cudaErrorLaunchFailure);
  });
}

TEST_CASE("fake CUDA: work that touches freed memory fails its device") {
  with_machine({}, [] {
    auto* const s = make_stream();
    auto* const x = make_ints(3);
    CHECK(cudaFree(x) == cudaSuccess);
    CHECK(set(s, x, 1) == cudaSuccess);
    auto const status = cudaStreamSynchronize(s);
    CHECK(status == cudaErrorLaunchFailure);
    CHECK(std::string(cudaGetErrorString(status)).find("set on GPU 0: it touched 0x") == 0);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
  });
}

TEST_CASE("fake CUDA: a captured stream runs nothing, its graph runs at every launch") {
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    with_machine({.seed = seed}, [] {
      auto* const s = make_stream();
      auto* const t = make_stream();
      auto* const fork = make_event();
      auto* const join = make_event();
      auto* const x = make_ints(2);
      auto const capture = [&](int a, int b) {
        REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
        CHECK((set(s, x, a) | cudaEventRecord(fork, s) | cudaStreamWaitEvent(t, fork, 0) |
               set(s, x, a + 1) | set(t, x + 1, b) | cudaEventRecord(join, t) |
               cudaStreamWaitEvent(s, join, 0)) == cudaSuccess);
        CHECK(cudaEventQuery(join) == cudaErrorCapturedEvent);
        cudaGraph_t graph = nullptr;
        REQUIRE(cudaStreamEndCapture(s, &graph) == cudaSuccess);
        return graph;
      };
      auto* const first = capture(1, 2);
      auto* const second = capture(3, 4);
      cudaGraphExec_t ready = nullptr;
      CHECK(cudaGraphInstantiate(&ready, first, 0) == cudaSuccess);
      CHECK(read(s, x) == -1);
      CHECK(cudaGraphLaunch(ready, s) == cudaSuccess);
      cudaGraphExecUpdateResultInfo info{};
      // An update changes only later launches.
      CHECK(cudaGraphExecUpdate(ready, second, &info) == cudaSuccess);
      CHECK(read(s, x) == 2);
      CHECK(cudaGraphLaunch(ready, s) == cudaSuccess);
      CHECK(read(s, x) == 4);
      CHECK(read(s, x + 1) == 4);
      CHECK((cudaGraphDestroy(first) | cudaGraphDestroy(second) | cudaGraphExecDestroy(ready) |
             cudaEventDestroy(fork) | cudaEventDestroy(join) | cudaStreamDestroy(s) |
             cudaStreamDestroy(t) | cudaFree(x)) == cudaSuccess);
    });
}

TEST_CASE("fake CUDA: a capture refuses what CUDA refuses, and is broken then") {
  with_machine({}, [] {
    auto* const s = make_stream();
    auto* const t = make_stream();
    auto* const mark = make_event();
    auto* const x = make_ints(1);
    int host_value = 0;
    void* memory = nullptr;
    CHECK(cudaEventRecord(mark, t) == cudaSuccess);
    struct rule {
      cudaError_t expected;
      std::function<cudaError_t()> call;
    };
    std::vector<rule> const rules{
        {cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamSynchronize(s); }},
        {cudaErrorStreamCaptureUnsupported, [&] { return cudaStreamQuery(s); }},
        {cudaErrorStreamCaptureUnsupported, [&] { return cudaMalloc(&memory, 1); }},
        {cudaErrorStreamCaptureUnsupported, [&] { return cudaFree(x); }},
        {cudaErrorStreamCaptureUnsupported, [&] { return cudaHostAlloc(&memory, 1, 0); }},
        {cudaErrorStreamCaptureUnsupported, [&] { return cudaMallocAsync(&memory, 1, s); }},
        {cudaErrorStreamCaptureUnsupported,
         [&] { return cudaMemcpy(x, &host_value, 4, cudaMemcpyDefault); }},
        {cudaErrorStreamCaptureUnsupported, [&] { return cudaMemset(x, 0, 4); }},
        {cudaErrorStreamCaptureUnsupported, [&] { return cudaDeviceSynchronize(); }},
        {cudaErrorStreamCaptureUnsupported,
         [&] { return cudaMemcpyAsync(x, &host_value, 4, cudaMemcpyDefault, s); }},
        {cudaErrorStreamCaptureIsolation, [&] { return cudaStreamWaitEvent(s, mark, 0); }}};
    for (auto const& [expected, call] : rules) {
      REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
      // the calls of another thread are permitted
      std::thread([] {
        void* allocation = nullptr;
        CHECK((cudaMalloc(&allocation, 1) | cudaFree(allocation)) == cudaSuccess);
      }).join();
      CHECK(call() == expected);
      CHECK(set(s, x, 1) == cudaErrorStreamCaptureInvalidated);
      cudaGraph_t graph = nullptr;
      CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
      CHECK(graph == nullptr);
    }
    // stream t joined the capture, and its work was not waited for
    REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK((set(s, x, 1) | cudaEventRecord(mark, s) | cudaStreamWaitEvent(t, mark, 0) |
           set(t, x, 2)) == cudaSuccess);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureUnjoined);
    CHECK(set(t, x, 3) == cudaSuccess);
    CHECK(read(t, x) == 3);
    CHECK((cudaEventDestroy(mark) | cudaFree(x) | cudaStreamDestroy(s) | cudaStreamDestroy(t)) ==
          cudaSuccess);
  });
}

TEST_CASE("fake CUDA: events and kernels of another device than the stream's are refused") {
  with_machine({.devices = 2}, [] {
    auto* const s = make_stream(1);
    auto* const other = make_event();  // of GPU 1
    auto* const t = make_stream(0);
    CHECK(cudaEventRecord(other, t) == cudaErrorInvalidResourceHandle);
    CHECK(fake_cuda::launch(s, {"here", 1, 32, 0, {}}, [](auto) {}) ==
          cudaErrorInvalidResourceHandle);
    CHECK(fake_cuda::launch(t, {"wide", 1, 2048, 0, {}}, [](auto) {}) ==
          cudaErrorInvalidConfiguration);
    CHECK((cudaEventDestroy(other) | cudaStreamDestroy(s) | cudaStreamDestroy(t)) == cudaSuccess);
  });
}

TEST_CASE("fake CUDA: work that throws fails its device, and later work there does not run") {
  with_machine({.devices = 2}, [] {
    auto* const s = make_stream(0);
    auto* const t = make_stream(1);
    bool ran = false;
    CHECK(fake_cuda::enqueue(s, "work", [] { throw std::runtime_error("broken"); }) == cudaSuccess);
    while (!fake_cuda::has_failed(0)) std::this_thread::yield();
    CHECK(fake_cuda::enqueue(s, "more", [&] { ran = true; }) == cudaErrorLaunchFailure);
    CHECK(cudaStreamSynchronize(s) == cudaErrorLaunchFailure);
    CHECK(!ran);
    CHECK(fake_cuda::history().failures == std::vector<std::string>{"work on GPU 0: broken"});
    CHECK(fake_cuda::enqueue(t, "other", [&] { ran = true; }) == cudaSuccess);
    CHECK(cudaStreamSynchronize(t) == cudaSuccess);
    CHECK(ran);
    CHECK((cudaStreamDestroy(s) | cudaStreamDestroy(t)) == cudaSuccess);
  });
}

}  // namespace fake_runtime_test
