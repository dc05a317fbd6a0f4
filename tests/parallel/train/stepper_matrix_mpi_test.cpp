// Part of test_mpi: mixed layouts of as many processes as there are, against one rank in process.
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

#include "support/ring_matrix.hpp"

namespace mpi_test {
extern parallel::mpi::environment* environment;  // comm/mpi_test.cpp
}

namespace stepper_matrix_mpi_test {

using test::layout;
using test::outcome;

/// How many elements this rank knows, all of which must be the reference's.
std::int64_t known_elements(std::map<std::string, std::vector<test::ring>> const& tensors,
                            std::map<std::string, std::vector<test::ring>> const& expected,
                            outcome const& part, std::vector<std::uint8_t>& known) {
  std::int64_t count = 0;
  for (auto const& [name, whole] : expected) {
    auto const mine = tensors.find(name);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      bool const here = mine != tensors.end() && part.known.at(&mine->second)[i];
      known.push_back(here ? 1 : 0);
      if (!here) continue;
      ++count;
      if (mine->second[i] != whole[i]) return -1;
    }
  }
  return count;
}

TEST_CASE("mixed layouts over MPI equal one rank bit for bit") {
  parallel::mpi::communicator world(*mpi_test::environment);
  std::vector<layout> all;
  for (auto const& how : test::all_layouts(world.size(), 2))
    if (how.shape().ranks() == world.size() && refusal(how).empty()) all.push_back(how);
  auto const some = spread(all, std::min<std::size_t>(all.size(), 12));
  test::ring_references references;
  std::mutex lock;
  parallel::host::stream exchanges;
  for (auto const& how : some) {
    auto const words = text(how);
    CAPTURE(words);
    outcome part;
    auto comm = world.split(0);
    CHECK_NOTHROW(run_rank(parallel::any_communicator(std::move(comm)), how, part, lock));
    auto const& one = references.outcome_of(how);
    CHECK(part.losses == one.losses);
    CHECK(part.squared_norms == one.squared_norms);
    CHECK(part.tokens == one.tokens);
    CHECK(part.tensors == one.tensors);
    CHECK(part.ranks_agree);
    CHECK(part.frozen_is_lean);
    std::vector<std::uint8_t> known;
    // a small shard may lie in frozen parameters alone
    CHECK(known_elements(part.gradients, one.gradients, part, known) >= 0);
    CHECK(known_elements(part.parameters, one.parameters, part, known) > 0);
    std::vector<std::int32_t> ranks(known.begin(), known.end());
    world.all_reduce(exchanges, std::span(ranks), parallel::reduction::sum).wait();
    CHECK(std::ranges::all_of(ranks, [](auto count) { return count > 0; }));
  }
  if (world.rank() == 0)
    MESSAGE(some.size() << " layouts of " << world.size() << " MPI ranks equal one rank");
}

}  // namespace stepper_matrix_mpi_test
