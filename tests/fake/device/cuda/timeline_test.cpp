// Times of operations on a CUDA stream, on a fake CUDA runtime.
#include <doctest/doctest.h>

#include <chrono>

#include <parallel/device/as_graph.hpp>
#include <parallel/device/cuda/stream.hpp>

#include "support/devices/fake_cuda.hpp"

namespace timeline_test {

using parallel::cuda::stream;

int operation(stream& s, char const* name, int kernels) {
  return s.run(name, [&] {
    for (int i = 0; i < kernels; ++i) fake::enqueue(s.get(), i);
    return kernels;
  });
}

TEST_CASE("timeline: operations have their times when the stream is empty") {
  using namespace std::chrono_literals;
  fake::machine() = {};
  parallel::host::trace trace;
  {
    stream s({.record = &trace});
    CHECK(operation(s, "before", 1) == 1);
    trace.start();
    CHECK(operation(s, "first", 2) == 2);
    CHECK(operation(s, "second", 5) == 5);
    CHECK(trace.take().empty());
    s.synchronize();
    trace.stop();
    CHECK(operation(s, "after", 1) == 1);
    s.synchronize();
    auto const tasks = trace.take();
    REQUIRE(tasks.size() == 2);
    CHECK(tasks[0].label.name == "first");
    CHECK(tasks[0].end - tasks[0].begin == 2ms);
    CHECK(tasks[1].label.name == "second");
    CHECK(tasks[1].begin == tasks[0].end);
    CHECK(tasks[1].end - tasks[1].begin == 5ms);
  }
  CHECK(fake::machine().events == 0);
}

TEST_CASE("timeline: measured work runs operation by operation, not as a graph") {
  fake::machine() = {};
  parallel::host::trace trace;
  stream s({.graphs = true, .record = &trace});
  auto const run = [&] { parallel::as_graph(s, {}, [&] { operation(s, "one", 1); }); };
  run();
  run();
  CHECK(fake::machine().launches.size() == 1);
  trace.start();
  run();
  s.synchronize();
  trace.stop();
  CHECK(fake::machine().launches.size() == 1);
  CHECK(trace.take().size() == 1);
  run();
  CHECK(fake::machine().launches.size() == 2);
}

}  // namespace timeline_test
