// The first candidate that runs is selected, and no more candidates are requested than needed.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include <parallel/core/error.hpp>
#include <parallel/ops/cuda/tuning/candidate_selector.hpp>

namespace candidate_selector_test {

/// Yields the candidates 0, 1, ..., last, and records the requests.
struct recording_source {
  int last;
  std::vector<int>* requested;
  int next = 0;

  std::unique_ptr<int const> operator()() {
    if (next > last) return nullptr;
    requested->push_back(next);
    return std::make_unique<int const>(next++);
  }
};

struct attempts {
  std::vector<int> requested, tried;
  parallel::cuda::candidate_selector<recording_source> selector;

  explicit attempts(int count) : selector({.last = count - 1, .requested = &requested}) {}
  /// Runs when the candidates from `first` on work.
  bool run(int first) {
    return selector([&](int candidate) {
      tried.push_back(candidate);
      return candidate >= first;
    });
  }
};

TEST_CASE("candidate_selector: candidates are tried in turn until one runs, which is selected") {
  attempts trial(4);
  CHECK(!trial.selector.has_selected());
  CHECK(trial.run(2));
  CHECK(trial.selector.has_selected());
  CHECK(trial.run(0));
  CHECK(trial.run(1));
  CHECK(trial.tried == std::vector{0, 1, 2, 2, 2});
  CHECK(trial.requested == std::vector{0, 1, 2});
}

TEST_CASE("candidate_selector: if no candidate runs, none is tried again") {
  for (int const count : {0, 3}) {
    attempts trial(count);
    CHECK(!trial.run(count));
    CHECK(!trial.run(0));
    CHECK(!trial.selector.has_selected());
    CHECK(static_cast<int>(trial.tried.size()) == count);
  }
}

TEST_CASE("candidate_selector: a candidate that has run and fails later is not replaced") {
  attempts trial(3);
  CHECK(trial.run(1));
  CHECK(!trial.run(3));
  CHECK(trial.run(1));
  CHECK(trial.tried == std::vector{0, 1, 1, 1});
}

TEST_CASE(
    "candidate_selector: choose selects the best of the current candidate and the next ones") {
  for (int const best : {-1, 0, 1, 2}) {
    CAPTURE(best);
    attempts trial(5);
    CHECK(trial.run(1));
    std::vector<int> offered;
    trial.selector.choose(3, [&](int count, auto const& candidate_at) {
      for (int i = 0; i < count; ++i) offered.push_back(candidate_at(i));
      return best;
    });
    CHECK(offered == std::vector{1, 2, 3});
    CHECK(trial.requested == std::vector{0, 1, 2, 3});  // no more than needed
    CHECK(trial.selector.selected() == (best < 0 ? 1 : 1 + best));
    CHECK(trial.run(0));
    CHECK(trial.tried.back() == trial.selector.selected());
  }
  attempts last(2);
  CHECK(last.run(1));
  last.selector.choose(3, [&](int count, auto const&) { return count - 1; });
  CHECK(last.selector.selected() == 1);
}

TEST_CASE("candidate_selector: an exception from choose keeps the candidate that has run") {
  attempts trial(3);
  CHECK(trial.run(0));
  CHECK_THROWS_AS(trial.selector.choose(3, [](int, auto const&) -> int { parallel::fail("lost"); }),
                  parallel::error);
  CHECK(trial.selector.selected() == 0);
}

TEST_CASE("candidate_selector: an exception from a candidate leaves the others to be tried") {
  attempts trial(3);
  CHECK_THROWS_AS(
      static_cast<void>(trial.selector([](int) -> bool { parallel::fail("out of memory"); })),
      parallel::error);
  CHECK(!trial.selector.has_selected());
  CHECK(trial.run(0));
  CHECK(trial.tried == std::vector{1});
}

}  // namespace candidate_selector_test
