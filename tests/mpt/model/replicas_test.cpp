#include "support/laws/replica_laws.hpp"

#include <utility>

#include <parallel/comm/threads/run.hpp>

namespace replicas_test {

TEST_CASE("replicas: evaluation and generation give the results of one rank") {
  for (auto const encoding : test::position_encodings)
    for (auto const& counts : {std::pair{2, 2}, {3, 3}, {3, 1}, {4, 2}}) {
      CAPTURE(encoding);
      CAPTURE(counts.first);
      CAPTURE(counts.second);
      parallel::threads::run(counts.first, [&](parallel::threads::communicator& comm) {
        parallel::any_communicator ranks(std::move(comm));
        test::check_replica(test::small_config(encoding), ranks, ranks, parallel::host::device(),
                            counts.second);
      });
    }
}

TEST_CASE("replicas: a number of ranks that replicas do not divide is refused") {
  CHECK_THROWS_WITH(
      parallel::threads::run(3,
                             [&](parallel::threads::communicator& comm) {
                               parallel::any_communicator ranks(std::move(comm));
                               mpt::replicas<parallel::host::device> const replicas(
                                   ranks, ranks, parallel::host::device(), 2);
                             }),
      doctest::Contains("3 ranks cannot hold models of 2 ranks each; use a multiple of 2"));
}

}  // namespace replicas_test
