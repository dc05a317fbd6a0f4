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
#include <parallel/train/gradient_norm.hpp>

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

/// The squared norm of gradient(0), gradient(1), ... divided into `shards`, with copies of each on
/// replicas and another stage that holds the unit too but does not account for it.
std::set<double> norm_on(int shards, int replicas, bool silent, bool exact) {
  std::set<double> out;
  std::mutex lock;
  int const speaking = shards * replicas;
  parallel::threads::run(speaking * (silent ? 2 : 1), [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::host::stream compute, exchanges;
    layer own;
    zero::unit_position const place{.shard = comm.rank() % shards,
                                    .shards = shards,
                                    .replica = comm.rank() / shards % replicas,
                                    .replicas = replicas,
                                    .is_primary = comm.rank() < speaking};
    zero::partitioned_unit<float> unit(parallel::unit<float>("unit", own, place.data_ranks(),
                                                             [](std::string const& name) {
                                                               parallel::segment_key key;
                                                               key.trainable = name != "frozen";
                                                               return key;
                                                             }),
                                       zero::level::optimizer, place, 1, device);
    for (std::size_t s = 0; s < unit.segments().size(); ++s) {
      if (!unit.is_trainable(s)) continue;
      auto const& segment = unit.segments()[s];
      auto const owned = unit.owned_gradients(s);
      for (std::size_t i = 0; i < owned.size(); ++i) {
        index const at = segment.owned.begin + static_cast<index>(i);
        owned[i] = at < 103 ? gradient(at) : 0;
      }
    }
    parallel::train::gradient_norm<float> norm(exact, device);
    for (int step = 0; step < 2; ++step) {  // the second begins at zero again
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

TEST_CASE("every element counts once, and all ranks are told the same") {
  double expected = 0;
  for (index i = 0; i < 103; ++i) {
    auto const g = static_cast<double>(gradient(i));
    expected += g * g;
  }
  auto const exactly = norm_on(1, 1, false, true);
  REQUIRE(exactly.size() == 1);
  for (auto const& at : std::vector<std::tuple<int, int, bool>>{{1, 1, false},
                                                                {2, 1, false},
                                                                {3, 1, true},
                                                                {1, 3, false},
                                                                {2, 2, true},
                                                                {4, 1, false}}) {
    auto const& [shards, replicas, silent] = at;
    CAPTURE(std::get<0>(at));
    CAPTURE(std::get<1>(at));
    auto const rounded = norm_on(shards, replicas, silent, false);
    REQUIRE(rounded.size() == 1);
    CHECK(*rounded.begin() == doctest::Approx(expected).epsilon(1e-9));
    CHECK(norm_on(shards, replicas, silent, true) == exactly);
  }
}

}  // namespace gradient_norm_test
