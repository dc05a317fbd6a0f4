// The units that each pipeline rank holds, the rank that accounts for a unit that several hold, and
// the sums of gradients of tied parameters.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/train/setup/placed_units.hpp>

#include "support/ring/ring_model.hpp"

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

namespace placed_units_test {

namespace train = parallel::train;
using any = parallel::any_communicator;
using test::ring;

/// Stands in for an optimizer with one state.
struct one_state {
  [[nodiscard]] static std::span<std::string_view const> state_names() {
    static constexpr std::array<std::string_view, 1> names = {"sum"};
    return names;
  }
};

struct placement {
  std::map<int, std::vector<std::string>> held;  // by pipeline rank
  std::map<std::string, int> primaries;
  std::set<ring> tied_gradients;
  std::set<std::size_t> tensors;
};

/// Places the units of a model of four blocks on `ranks` pipeline ranks; the gradients of rank r
/// are all r + 1.
placement place_units(bool tied, int ranks, std::string const& schedule) {
  placement out;
  std::mutex lock;
  auto const shape = parallel::training_layout{}.with_degree<parallel::axis::pipeline>(ranks);
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    parallel::host::stream exchanges;
    train::process_groups<any> groups(any(std::move(comm)), shape, parallel::zero::level::none);
    test::ring_model model(4, 6, 10, {.tied = tied, .blocks = 4});
    train::placed_units<test::ring_model, parallel::host::device, any> units(
        model, device, groups, {.pipeline = {.schedule = schedule, .stages_per_rank = 1}},
        std::vector<one_state>(1), parallel::one_segment{});
    for (auto& entry : units.units())
      for (std::size_t s = 0; s < entry.memory.segments().size(); ++s)
        for (auto& g : entry.memory.owned_gradients(s))
          g = static_cast<ring>(groups.pipeline.rank()) + 1;
    std::vector<parallel::request> requests;
    for (auto const& entry : units.units()) units.reduce_tied(entry, exchanges, requests);
    for (auto& request : requests) request.wait();
    std::scoped_lock const guard(lock);
    out.tensors.insert(units.tensors().size());
    for (auto& entry : units.units()) {
      auto const& name = entry.memory.layout().name();
      out.held[groups.pipeline.rank()].push_back(name);
      auto const& segment = entry.memory.segments()[0];
      auto const primary = entry.memory.primary_range(0);
      CHECK(segment.owned.begin == 0);
      out.primaries[name] += primary.begin < primary.end ? 1 : 0;
      if (name == "tokens") out.tied_gradients.insert(entry.memory.owned_gradients(0)[0]);
    }
  });
  return out;
}

TEST_CASE(
    "placed units: each rank holds the units of its stages, and a tied unit is on both end "
    "stages") {
  auto const tied = place_units(true, 2, "1f1b");
  CHECK(tied.held.at(0) == std::vector<std::string>{"tokens", "block.0", "block.1"});
  CHECK(tied.held.at(1) == std::vector<std::string>{"tokens", "block.2", "block.3", "norm"});
  CHECK(tied.tied_gradients == std::set<ring>{1 + 2});  // the sum over both ranks, on both
  auto const untied = place_units(false, 2, "1f1b");
  CHECK(untied.held.at(0) == std::vector<std::string>{"tokens", "block.0", "block.1"});
  CHECK(untied.held.at(1) == std::vector<std::string>{"block.2", "block.3", "norm", "head"});
  CHECK(untied.tied_gradients == std::set<ring>{1});
  auto const four = place_units(true, 4, "gpipe");
  CHECK(four.held.at(1) == std::vector<std::string>{"block.1"});
  CHECK(four.tied_gradients == std::set<ring>{1 + 4});  // the ranks between do not take part
}

TEST_CASE(
    "placed units: one rank accounts for each unit, and all ranks know every tensor of the model") {
  for (bool const tied : {true, false})
    for (int const ranks : {1, 2, 4}) {
      auto const result = place_units(tied, ranks, "gpipe");
      for (auto const& entry : result.primaries) {
        auto const& [name, primaries] = entry;
        CAPTURE(entry.first);
        CHECK(primaries == 1);
      }
      CHECK(result.primaries.size() == (tied ? 6 : 7));
      CHECK(result.tensors.size() == 1);
      CHECK(*result.tensors.begin() > 20);
    }
}

}  // namespace placed_units_test
