#include "support/replica_laws.hpp"

#include <utility>

#include <parallel/comm/threads/run.hpp>

namespace replicas_test {

TEST_CASE("replicas, each of several ranks, find and write what one rank does") {
  for (int which = 0; which < 3; ++which)
    for (auto const& at : {std::pair{2, 2}, {3, 3}, {3, 1}, {4, 2}}) {
      CAPTURE(which);
      CAPTURE(at.first);
      CAPTURE(at.second);
      parallel::threads::run(at.first, [&](parallel::threads::communicator& comm) {
        parallel::any_communicator ranks(std::move(comm));
        test::check_replica(test::small_form(which), ranks, ranks, parallel::host::device(),
                            at.second);
      });
    }
}

TEST_CASE("ranks that no replica takes up are refused") {
  CHECK_THROWS_WITH(
      parallel::threads::run(3,
                             [&](parallel::threads::communicator& comm) {
                               parallel::any_communicator ranks(std::move(comm));
                               mpt::replicas<parallel::host::device> const of(
                                   ranks, ranks, parallel::host::device(), 2);
                             }),
      doctest::Contains("3 ranks cannot hold models of 2 ranks each; use a multiple of 2"));
}

}  // namespace replicas_test
