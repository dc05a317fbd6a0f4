// The squared norm counts every element once, whoever holds it; the exact one has the same bits
// however elements are divided.
#include <doctest/doctest.h>

#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/results/gradient_norm.hpp>

namespace gradient_norm_test {

namespace zero = parallel::zero;
using parallel::index;

struct layer {
  parallel::parameter<float, 1> weight{"weight", {103}};
  parallel::parameter<float, 1> frozen{"frozen", {40}};
  void visit_parameters(auto&& visit) {
    visit(weight);
    visit(frozen);
  }
};

float gradient(index i) {
  return 1.0F / static_cast<float>(i * i + 3) + static_cast<float>(i % 2) * 100;
}

/// The squared norms that ranks compute of gradient(0), gradient(1), ... divided into `shards`,
/// with copies of each shard on replicas and, with `has_secondary_stage`, a second pipeline stage
/// that also holds the unit but does not account for it.
std::set<double> norm_on(int shards, int replicas, bool has_secondary_stage, bool exact) {
  std::set<double> out;
  std::mutex lock;
  int const primary_ranks = shards * replicas;
  parallel::threads::run(
      primary_ranks * (has_secondary_stage ? 2 : 1), [&](parallel::threads::communicator& comm) {
        parallel::host::device device;
        parallel::host::stream compute, exchanges;
        layer model;
        zero::unit_position const position{.shard = comm.rank() % shards,
                                           .shards = shards,
                                           .replica = comm.rank() / shards % replicas,
                                           .replicas = replicas,
                                           .is_primary = comm.rank() < primary_ranks};
        zero::partitioned_unit<float> unit(
            parallel::unit<float>("unit", model, position.data_ranks(),
                                  [](std::string const& name) {
                                    parallel::segment_key key;
                                    key.trainable = name != "frozen";
                                    return key;
                                  }),
            zero::level::optimizer, position, 1, device);
        for (std::size_t s = 0; s < unit.segments().size(); ++s) {
          if (!unit.is_trainable(s)) continue;
          auto const& segment = unit.segments()[s];
          auto const owned = unit.owned_gradients(s);
          for (std::size_t i = 0; i < owned.size(); ++i) {
            index const element = segment.owned.begin + static_cast<index>(i);
            owned[i] = element < 103 ? gradient(element) : 0;
          }
        }
        parallel::train::gradient_norm<float> norm(exact, device);
        for (int step = 0; step < 2; ++step) {  // the second step must begin at zero again
          norm.clear();
          norm.add(unit, compute);
          compute.synchronize();
          double squared = *norm.rounded();
          if (exact)
            squared = norm.exact_over_ranks(comm, exchanges);
          else
            comm.all_reduce(exchanges, std::span(&squared, 1), parallel::reduction::sum).wait();
          std::scoped_lock const guard(lock);
          out.insert(squared);
        }
      });
  return out;
}

TEST_CASE("gradient norm: every element counts once, and all ranks get the same norm") {
  double expected = 0;
  for (index i = 0; i < 103; ++i) {
    auto const g = static_cast<double>(gradient(i));
    expected += g * g;
  }
  auto const exact_norm = norm_on(1, 1, false, true);
  REQUIRE(exact_norm.size() == 1);
  for (auto const& division : std::vector<std::tuple<int, int, bool>>{{1, 1, false},
                                                                      {2, 1, false},
                                                                      {3, 1, true},
                                                                      {1, 3, false},
                                                                      {2, 2, true},
                                                                      {4, 1, false}}) {
    auto const& [shards, replicas, has_secondary_stage] = division;
    CAPTURE(std::get<0>(division));
    CAPTURE(std::get<1>(division));
    auto const rounded = norm_on(shards, replicas, has_secondary_stage, false);
    REQUIRE(rounded.size() == 1);
    CHECK(*rounded.begin() == doctest::Approx(expected).epsilon(1e-9));
    CHECK(norm_on(shards, replicas, has_secondary_stage, true) == exact_norm);
  }
}

}  // namespace gradient_norm_test
