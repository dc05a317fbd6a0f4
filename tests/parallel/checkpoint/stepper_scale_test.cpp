// The cost of saving and resuming on a rank, counted for growing numbers of ranks.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include <parallel/checkpoint/stepper.hpp>
#include <parallel/comm/recorded.hpp>

#include "parallel/support/file_counts.hpp"
#include "parallel/support/files.hpp"
#include "support/ring/ring_run.hpp"

namespace checkpoint_scale_test {
namespace {

namespace fs = std::filesystem;
namespace pc = parallel::checkpoint;
using parallel::index;
using test::layout;

struct cost {
  int opens = 0;
  std::size_t read = 0, calls = 0, sent = 0;
};

/// The cost of `action` on this rank.
template <class Action>
cost cost_of(parallel::flight_recorder const& recorder, Action const& action) {
  auto const current_cost = [&] {
    cost out{test::opened_files, test::read_bytes};
    for (auto const& [name, total] : recorder.totals()) {
      out.calls += total.calls;
      out.sent += total.sent;
    }
    return out;
  };
  auto const start_cost = current_cost();
  action();
  auto const end_cost = current_cost();
  return {end_cost.opens - start_cost.opens, end_cost.read - start_cost.read,
          end_cost.calls - start_cost.calls, end_cost.sent - start_cost.sent};
}

struct costs {
  std::vector<cost> save, resume;       // by rank
  std::size_t saved = 0, manifest = 0;  // bytes
};

costs measure(layout const& run_layout, fs::path const& root) {
  auto const ranks = static_cast<std::size_t>(run_layout.shape().ranks());
  costs out{std::vector<cost>(ranks), std::vector<cost>(ranks)};
  parallel::threads::run(run_layout.shape().ranks(), [&](parallel::threads::communicator& comm) {
    auto const own_rank = static_cast<std::size_t>(comm.rank());
    auto const recorder = std::make_shared<parallel::flight_recorder>();
    test::ring_rank<> one(parallel::any_communicator(parallel::recorded(std::move(comm), recorder)),
                          run_layout);
    for (index const batches : {1, 2, 3})
      out.save[own_rank] = cost_of(*recorder, [&] {
        pc::save(one.stepper(), one.world(), one.exchanges(), root, {.batches = batches},
                 {.keep = 2});
      });
    out.resume[own_rank] = cost_of(*recorder, [&] {
      CHECK(pc::resume(one.stepper(), one.world(), one.exchanges(), root)->batches == 3);
    });
  });
  pc::checkpoint_reader const reader(root / "ep0-ba3");
  for (auto const& [name, tensor] : reader.tensors())
    for (auto const& slice : tensor.slices) out.saved += slice.bytes;
  out.manifest = fs::file_size(root / "ep0-ba3/manifest.json");
  return out;
}

TEST_CASE(
    "stepper checkpoint: the cost of a save and a resume on a rank does not grow with their "
    "number") {
  test::temporary_folder const folder;
  for (auto const level : {test::zero::level::none, test::zero::level::optimizer})
    for (int const ranks : {8, 16, 32, 64}) {
      CAPTURE(ranks);
      auto const got =
          measure({.ranks = ranks, .level = level, .sizes = {.width = 16, .vocabulary = 256}},
                  folder / parallel::concat(static_cast<int>(level), "-", ranks));
      std::size_t read = 0;
      for (std::size_t rank = 0; rank < got.save.size(); ++rank) {
        auto const& save = got.save[rank];
        CHECK(save.opens <= (rank == 0 ? 9 : 1));
        CHECK(save.calls ==
              (rank == 0 ? got.save.size() + 3 : 5));  // rank 0 receives from each rank
        CHECK(save.sent < 8192);
        auto const& resume = got.resume[rank];
        CHECK(resume.opens < 32);
        CHECK(resume.calls < 20);
        read += resume.read;
      }
      // All ranks together read the data once to check it, with the header of each rank's file, and
      // once to load it. Rank 0 also reads the manifest to choose a checkpoint.
      CHECK(read == 2 * got.saved + 2 * got.manifest + 65536 * got.resume.size());
    }
}

}  // namespace
}  // namespace checkpoint_scale_test
