// as_graph on a CUDA stream, on a fake CUDA runtime.
#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include <parallel/device/as_graph.hpp>
#include <parallel/device/cuda/stream.hpp>
#include <parallel/device/host/stream.hpp>

#include "support/devices/fake_cuda.hpp"

namespace graph_cache_test {

using parallel::as_graph;
using parallel::graph_key;
using parallel::cuda::stream;
using numbers = std::vector<int>;

/// A range of two kernels.
auto two(stream& s, int first) {
  return [&s, first] {
    fake::enqueue(s.get(), first);
    fake::enqueue(s.get(), first + 1);
    return first;
  };
}

TEST_CASE("as_graph: the first run of a key is direct, later ones update a graph") {
  fake::machine() = {};
  {
    stream s({.graphs = true});
    graph_key const key{.part = 3, .pass = 1, .rows = 8};
    CHECK(as_graph(s, key, two(s, 10)) == 10);
    CHECK(fake::machine().direct == numbers{10, 11});
    CHECK(as_graph(s, key, two(s, 20)) == 20);
    CHECK(as_graph(s, key, two(s, 30)) == 30);
    CHECK(fake::machine().launches == std::vector<numbers>{{20, 21}, {30, 31}});
    CHECK(fake::machine().instantiations == 1);
    CHECK(fake::machine().direct.size() == 2);

    // another key has its own graph
    auto other = key;
    other.overwrites_gradients = true;
    CHECK(as_graph(s, other, two(s, 40)) == 40);
    CHECK(fake::machine().direct == numbers{10, 11, 40, 41});
  }
  CHECK(fake::machine().graphs == 0);
  CHECK(fake::machine().streams == 0);
}

TEST_CASE("as_graph: changed operations get a new graph") {
  fake::machine() = {};
  stream s({.graphs = true});
  for (int count : {2, 2, 3, 3})
    as_graph(s, {}, [&] {
      for (int i = 0; i < count; ++i) fake::enqueue(s.get(), i);
    });
  CHECK(fake::machine().launches == std::vector<numbers>{{0, 1}, {0, 1, 2}, {0, 1, 2}});
  CHECK(fake::machine().instantiations == 2);
}

TEST_CASE("as_graph: an exception ends the capture, and the stream still works") {
  fake::machine() = {};
  stream s({.graphs = true});
  auto const run = [&](bool broken) {
    as_graph(s, {}, [&] {
      fake::enqueue(s.get(), 5);
      if (broken) throw std::runtime_error("broken");
    });
  };
  run(false);
  CHECK_THROWS_WITH(run(true), "broken");
  CHECK(fake::machine().graphs == 0);
  CHECK(fake::machine().launches.empty());
  run(false);
  CHECK(fake::machine().launches == std::vector<numbers>{{5}});
}

TEST_CASE("as_graph: without graphs the work runs directly") {
  fake::machine() = {};
  stream s;
  for (int i = 0; i < 3; ++i) as_graph(s, {}, two(s, i));
  CHECK(fake::machine().direct.size() == 6);
  CHECK(fake::machine().launches.empty());
  parallel::host::stream host;
  CHECK(as_graph(host, {}, [] { return 7; }) == 7);
}

TEST_CASE("cuda::stream: scratch memory does not grow inside a graph") {
  fake::machine() = {};
  stream s({.graphs = true});
  auto const run = [&](std::size_t bytes) {
    as_graph(s, {}, [&] { static_cast<void>(s.scratch(bytes)); });
  };
  run(1000);
  run(1000);
  CHECK_THROWS_WITH_AS(run(1001), doctest::Contains("inside a graph asks for 1001 bytes"),
                       parallel::error);
}

}  // namespace graph_cache_test
