// Passes of a stage as graphs: which parts of a pass are marked as graphs. The tests of the stepper
// check the results.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/setup/stage.hpp>

#include "support/ring/ring_model.hpp"

namespace stage_test {
namespace {

using parallel::graph_key;

struct graph_stream : parallel::host::stream {
  std::vector<graph_key> keys;
  template <class Work>
  void run_as_graph(graph_key const& key, Work&& work) {
    keys.push_back(key);
    work();
  }
};

struct told_model : test::ring_model {
  explicit told_model(bool local) : test::ring_model(2, 4, 13), local_(local) {}
  [[nodiscard]] bool blocks_are_local() const { return local_; }
  bool local_;
};

/// The keys of a microbatch of five rows.
std::vector<graph_key> keys_of(told_model& model, bool fresh) {
  parallel::host::device const device;
  std::vector<std::uint64_t> memory(10000, 1);
  std::size_t used = 0;
  model.visit_units([&](auto const&, auto& layer, auto const&, auto const& uses) {
    auto const bind = [&](auto& p) {
      p.data = memory.data() + used;
      p.gradient_data = memory.data() + (used += static_cast<std::size_t>(p.size()));
      used += static_cast<std::size_t>(p.size());
    };
    layer.visit_parameters(bind);
    for (auto* const use : uses) bind(*use);
  });
  REQUIRE(used <= memory.size());
  graph_stream stream;
  parallel::arena arena(device.allocate<std::byte>(1 << 20));
  std::vector<std::int32_t> const ids(5, 1);
  test::ring_microbatch const batch{{ids.data(), {5}}, {ids.data(), {5}}, 1, 5, 5};
  parallel::context<graph_stream> c{stream, arena};
  c.sequence = 5;
  c.overwrite_gradients = fresh;
  parallel::train::statistics<std::uint64_t> sums;
  parallel::train::run_microbatch(model, c, batch, sums);
  stream.synchronize();
  return stream.keys;
}

TEST_CASE("stage: each pass of a block without exchanges may be one graph") {
  told_model model(true);
  CHECK(keys_of(model, false) == std::vector<graph_key>{{.part = 0, .pass = 0, .rows = 5},
                                                        {.part = 1, .pass = 0, .rows = 5},
                                                        {.part = 1, .pass = 1, .rows = 5},
                                                        {.part = 0, .pass = 1, .rows = 5}});
  for (auto const& key : keys_of(model, true)) CHECK(key.overwrites_gradients);
}

TEST_CASE("stage: blocks with exchanges are not graphs") {
  told_model model(false);
  CHECK(keys_of(model, false).empty());
}

}  // namespace
}  // namespace stage_test
