// Which units each pipeline rank holds, which of them accounts for those that several hold, and how
// gradients of tied parameters meet.
#include <doctest/doctest.h>

#include <array>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/train/placed_units.hpp>

#include "support/ring_model.hpp"

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>

namespace placed_units_test {

namespace train = parallel::train;
using any = parallel::any_communicator;
using test::ring;

/// Stands for an optimizer of one state.
struct one_state {
  [[nodiscard]] static std::span<std::string_view const> state_names() {
    static constexpr std::array<std::string_view, 1> names = {"sum"};
    return names;
  }
};

struct placed {
  std::map<int, std::vector<std::string>> held;  // by pipeline rank
  std::map<std::string, int> speakers;
  std::set<ring> tied_gradients;
  std::set<std::size_t> tensors;
};

/// Units of a model of four blocks on `ranks` pipeline ranks; every rank's gradients are its
/// number plus 1.
placed place(bool tied, int ranks, std::string const& schedule) {
  placed out;
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
      auto const spoken = entry.memory.primary_range(0);
      CHECK(segment.owned.begin == 0);
      out.speakers[name] += spoken.begin < spoken.end ? 1 : 0;
      if (name == "tokens") out.tied_gradients.insert(entry.memory.owned_gradients(0)[0]);
    }
  });
  return out;
}

TEST_CASE("each rank holds the units of its stages; one that is used at both ends is at both") {
  auto const two = place(true, 2, "1f1b");
  CHECK(two.held.at(0) == std::vector<std::string>{"tokens", "block.0", "block.1"});
  CHECK(two.held.at(1) == std::vector<std::string>{"tokens", "block.2", "block.3", "norm"});
  CHECK(two.tied_gradients == std::set<ring>{1 + 2});  // of both ranks, on both
  auto const apart = place(false, 2, "1f1b");
  CHECK(apart.held.at(0) == std::vector<std::string>{"tokens", "block.0", "block.1"});
  CHECK(apart.held.at(1) == std::vector<std::string>{"block.2", "block.3", "norm", "head"});
  CHECK(apart.tied_gradients == std::set<ring>{1});
  auto const four = place(true, 4, "gpipe");
  CHECK(four.held.at(1) == std::vector<std::string>{"block.1"});
  CHECK(four.tied_gradients == std::set<ring>{1 + 4});  // the ranks between have no part in it
}

TEST_CASE("one rank accounts for each unit, and all know every tensor of the model") {
  for (bool const tied : {true, false})
    for (int const ranks : {1, 2, 4}) {
      auto const all = place(tied, ranks, "gpipe");
      for (auto const& at : all.speakers) {
        auto const& [name, speakers] = at;
        CAPTURE(at.first);
        CHECK(speakers == 1);
      }
      CHECK(all.speakers.size() == (tied ? 6 : 7));
      CHECK(all.tensors.size() == 1);
      CHECK(*all.tensors.begin() > 20);
    }
}

}  // namespace placed_units_test
