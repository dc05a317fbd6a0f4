#include <doctest/doctest.h>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/faulty.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>

#include "parallel/comm/suite.hpp"

namespace threads_test {

using namespace parallel;
using test::comm_suite::check_all;
using namespace std::chrono_literals;

constexpr int sizes[] = {1, 2, 3, 4, 5, 7, 8};

}  // namespace threads_test

TEST_CASE("a single rank passes the suite of all communicators") {
  parallel::single alone;
  CHECK_NOTHROW(test::comm_suite::check_all(alone));
}

TEST_CASE("threads reduce in rank order to the exact bits for every number of ranks") {
  using namespace threads_test;
  for (int const n : sizes) {
    CAPTURE(n);
    CHECK_NOTHROW(threads::run(n, [](auto& comm) { check_all(comm); }));
  }
}

TEST_CASE("decorated and erased communicators give the same bits") {
  using namespace threads_test;
  for (int const n : {1, 2, 3, 5}) {
    CAPTURE(n);
    auto const world = std::make_shared<threads::world>(n);
    (void)world;
    CHECK_NOTHROW(threads::run(n, [](threads::communicator& comm) {
      checked checker(any_communicator(checked(any_communicator(std::move(comm)))));
      faulty harmless(std::move(checker), fault{});
      any_communicator erased(std::move(harmless));
      check_all(erased);
    }));
  }
}
