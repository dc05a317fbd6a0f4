// The first of several ways that runs is kept, and others are tried no longer than needed.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/ops/cuda/first_that_runs.hpp>

namespace first_that_runs_test {

/// Gives 0, 1, ..., last, and writes down what was asked for.
struct counting {
  int last;
  std::vector<int>* given;
  int next = 0;

  std::unique_ptr<int const> operator()() {
    if (next > last) return nullptr;
    given->push_back(next);
    return std::make_unique<int const>(next++);
  }
};

struct attempts {
  std::vector<int> given, tried;
  parallel::cuda::first_that_runs<counting> ways;

  explicit attempts(int count) : ways({.last = count - 1, .given = &given}) {}
  /// Ways from `first` on work.
  bool run(int first) {
    return ways([&](int way) {
      tried.push_back(way);
      return way >= first;
    });
  }
};

TEST_CASE("ways are tried in turn until one runs, which is kept") {
  attempts of(4);
  CHECK(!of.ways.proven());
  CHECK(of.run(2));
  CHECK(of.ways.proven());
  CHECK(of.run(0));
  CHECK(of.run(1));
  CHECK(of.tried == std::vector{0, 1, 2, 2, 2});
  CHECK(of.given == std::vector{0, 1, 2});
}

TEST_CASE("where no way runs, none is tried again") {
  for (int const count : {0, 3}) {
    attempts of(count);
    CHECK(!of.run(count));
    CHECK(!of.run(0));
    CHECK(!of.ways.proven());
    CHECK(static_cast<int>(of.tried.size()) == count);
  }
}

TEST_CASE("a way that has run and then fails is not replaced") {
  attempts of(3);
  CHECK(of.run(1));
  CHECK(!of.run(3));
  CHECK(of.run(1));
  CHECK(of.tried == std::vector{0, 1, 1, 1});
}

TEST_CASE("after one has run, the best of it and of those that come next is kept") {
  for (int const best : {-1, 0, 1, 2}) {
    CAPTURE(best);
    attempts of(5);
    CHECK(of.run(1));
    std::vector<int> offered;
    of.ways.choose(3, [&](int count, auto const& way_at) {
      for (int i = 0; i < count; ++i) offered.push_back(way_at(i));
      return best;
    });
    CHECK(offered == std::vector{1, 2, 3});
    CHECK(of.given == std::vector{0, 1, 2, 3});  // no more than needed
    CHECK(of.ways.way() == (best < 0 ? 1 : 1 + best));
    CHECK(of.run(0));
    CHECK(of.tried.back() == of.ways.way());
  }
  attempts last(2);
  CHECK(last.run(1));
  last.ways.choose(3, [&](int count, auto const&) { return count - 1; });
  CHECK(last.ways.way() == 1);
}

TEST_CASE("an error while the best is looked for leaves what has run") {
  attempts of(3);
  CHECK(of.run(0));
  CHECK_THROWS_AS(of.ways.choose(3, [](int, auto const&) -> int { parallel::fail("lost"); }),
                  parallel::error);
  CHECK(of.ways.way() == 0);
}

TEST_CASE("an error while a way is tried leaves the others") {
  attempts of(3);
  CHECK_THROWS_AS(static_cast<void>(of.ways([](int) -> bool { parallel::fail("out of memory"); })),
                  parallel::error);
  CHECK(!of.ways.proven());
  CHECK(of.run(0));
  CHECK(of.tried == std::vector{1});
}

}  // namespace first_that_runs_test
