// Part of test_mpi: mixed layouts of as many ranks as there are processes, compared with one rank
// in this process.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/mpi/communicator.hpp>
#include <parallel/core/reduction.hpp>

#include "support/ring/ring_matrix.hpp"

namespace mpi_test {
extern parallel::mpi::environment* environment;  // comm/mpi_test.cpp
}

namespace stepper_matrix_mpi_test {

using test::layout;
using test::outcome;

/// The number of elements that this rank holds, all of which must equal the reference.
std::int64_t known_elements(std::map<std::string, std::vector<test::ring>> const& tensors,
                            std::map<std::string, std::vector<test::ring>> const& expected,
                            outcome const& part, std::vector<std::uint8_t>& known) {
  std::int64_t count = 0;
  for (auto const& [name, whole] : expected) {
    auto const own_tensor = tensors.find(name);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      bool const is_local =
          own_tensor != tensors.end() && part.known_elements.at(&own_tensor->second)[i];
      known.push_back(is_local ? 1 : 0);
      if (!is_local) continue;
      ++count;
      if (own_tensor->second[i] != whole[i]) return -1;
    }
  }
  return count;
}

/// Runs the layout on all ranks and compares it with one rank.
void check(parallel::mpi::communicator& world, layout const& run_layout,
           test::ring_references& references) {
  auto const words = text(run_layout);
  CAPTURE(words);
  outcome part;
  std::mutex lock;
  auto comm = world.split(0);
  CHECK_NOTHROW(run_rank(parallel::any_communicator(std::move(comm)), run_layout, part, lock));
  auto const& one = references.outcome_of(run_layout);
  CHECK(part.losses == one.losses);
  CHECK(part.squared_norms == one.squared_norms);
  CHECK(part.tokens == one.tokens);
  CHECK(part.tensors == one.tensors);
  CHECK(part.ranks_agree);
  CHECK(part.frozen_is_lean);
  std::vector<std::uint8_t> known;
  // A small shard may lie entirely in frozen parameters.
  CHECK(known_elements(part.gradients, one.gradients, part, known) >= 0);
  CHECK(known_elements(part.parameters, one.parameters, part, known) > 0);
  std::vector<std::int32_t> ranks(known.begin(), known.end());
  parallel::host::stream exchanges;
  world.all_reduce(exchanges, std::span(ranks), parallel::reduction::sum).wait();
  CHECK(std::ranges::all_of(ranks, [](auto count) { return count > 0; }));
}

TEST_CASE("mixed layouts over MPI: results equal those of one rank bit for bit") {
  parallel::mpi::communicator world(*mpi_test::environment);
  std::vector<layout> layouts;
  for (auto const& run_layout : test::all_layouts(world.size(), 2))
    if (run_layout.shape().ranks() == world.size() && refusal(run_layout).empty())
      layouts.push_back(run_layout);
  auto const sample = spread(layouts, std::min<std::size_t>(layouts.size(), 12));
  test::ring_references references;
  for (auto const& run_layout : sample) check(world, run_layout, references);
  if (world.rank() == 0)
    MESSAGE(sample.size() << " layouts of " << world.size() << " MPI ranks equal one rank");
}

TEST_CASE("pipelines over MPI: every schedule equals one rank bit for bit") {
  parallel::mpi::communicator world(*mpi_test::environment);
  test::ring_references references;
  for (std::string const schedule :
       {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dual-pipe-v"})
    check(
        world,
        {.microbatch = 1,
         .model = {.blocks = 8},
         .pipeline = world.size(),
         .schedule = {.schedule = schedule, .stages_per_rank = schedule == "interleaved" ? 2 : 1}},
        references);
}

}  // namespace stepper_matrix_mpi_test
