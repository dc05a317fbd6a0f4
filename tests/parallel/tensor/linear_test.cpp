// column_linear and row_linear against one rank, against gather and reduce, their exchanges whole
// and chunked, broken on purpose, and what they send.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/recorded.hpp>

#include "support/tensor_run.hpp"

namespace linear_test {
namespace {

using ring = std::uint64_t;
using parallel::matrix_view;
using test::linear_net;
using test::run_tensor;
using test::sliced_net;
using test::tensor_problem;
namespace tensor = parallel::tensor;
using threads_communicator = parallel::threads::communicator;

TEST_CASE("1 to 5 ranks compute what one computes, bit for bit, with rows divided and without") {
  auto const one = run_tensor<sliced_net, ring>(1, false, {});
  REQUIRE(one.down_bias != std::vector<ring>(7));
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (bool const sequence : {false, true}) {
      CAPTURE(ranks);
      CHECK(run_tensor<sliced_net, ring>(ranks, sequence, {}) == one);
      for (bool const overlap : {false, true})
        CHECK(run_tensor<linear_net, ring>(ranks, sequence, {.overlap = overlap}) == one);
    }
}

TEST_CASE("adapters follow their layers' slices: exact on 1 to 5 ranks, without more exchanges") {
  tensor_problem what{.rank = 3};
  auto const plain = run_tensor<sliced_net, ring>(1, false, {});
  auto const one = run_tensor<sliced_net, ring>(1, false, what);
  CHECK(one.y != plain.y);
  REQUIRE(one.down_b != std::vector<ring>(7 * 3));
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (bool const sequence : {false, true}) {
      CAPTURE(ranks);
      CHECK(run_tensor<sliced_net, ring>(ranks, sequence, what) == one);
      for (bool const overlap : {false, true}) {
        what.overlap = overlap;
        CHECK(run_tensor<linear_net, ring>(ranks, sequence, what) == one);
      }
    }
}

TEST_CASE("their dropout zeroes the same elements on any number of ranks") {
  tensor_problem what{.rows = 12, .rank = 3, .dropout = 0.3F};
  auto const one = run_tensor<linear_net, double>(1, false, what);
  auto without = what;
  without.dropout = 0;
  CHECK(run_tensor<linear_net, double>(1, false, without).y != one.y);
  auto const near = [](std::vector<double> const& a, std::vector<double> const& b) {
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, std::abs(a[i] - b[i]));
      largest = std::max(largest, std::abs(a[i]));
    }
    return a.size() == b.size() && worst <= 1e-13 * largest;
  };
  for (int const ranks : {2, 3, 4})
    for (bool const sequence : {false, true})
      for (bool const overlap : {false, true}) {
        CAPTURE(ranks);
        what.overlap = overlap;
        auto const found = run_tensor<linear_net, double>(ranks, sequence, what);
        CHECK(near(one.y, found.y));
        CHECK(near(one.dx, found.dx));
        CHECK(near(one.up_a, found.up_a));
        CHECK(near(one.up_b, found.up_b));
        CHECK(near(one.down_a, found.down_a));
        CHECK(near(one.down_b, found.down_b));
      }
}

template <class T, class Comm>
using sliced_branch = parallel::residual<sliced_net<T, Comm>>;
template <class T, class Comm>
using linear_branch = parallel::residual<linear_net<T, Comm>>;

TEST_CASE("around a region, what is not divided is added once, on any number of ranks") {
  auto const inner = run_tensor<sliced_net, ring>(1, false, {});
  auto const one = run_tensor<sliced_branch, ring>(1, false, {});
  tensor_problem const what;
  auto expected = inner;
  auto const x = test::random_numbers<ring>(what.rows * what.width, 1);
  auto const dy = test::random_numbers<ring>(what.rows * what.width, 2);
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected.y[i] += x[i];
    expected.dx[i] += dy[i];
  }
  CHECK(one == expected);
  for (int ranks = 1; ranks <= 3; ++ranks)
    for (bool const sequence : {false, true}) {
      CAPTURE(ranks);
      CHECK(run_tensor<sliced_branch, ring>(ranks, sequence, {}) == one);
      CHECK(run_tensor<linear_branch, ring>(ranks, sequence, {}) == one);
    }
}

TEST_CASE_TEMPLATE("rounded numbers have the bits of the unchunked exchange", T, double, float,
                   parallel::bf16) {
  for (int const ranks : {2, 3, 5})
    for (bool const overlap : {false, true})
      CHECK(run_tensor<linear_net, T>(ranks, true, {.overlap = overlap}) ==
            run_tensor<sliced_net, T>(ranks, true, {}));
}

TEST_CASE("every exchange of every rank, broken in each way, is noticed") {
  tensor_problem small{.rows = 12, .width = 3, .hidden = 12};
  auto const one = run_tensor<sliced_net, ring>(1, false, small);
  int mutants = 0;
  int survivors = 0;
  for (auto const& [ranks, overlap] : {std::pair{2, true}, {3, true}, {3, false}})
    for (auto const kind :
         {parallel::fault_kind::drop, parallel::fault_kind::twice, parallel::fault_kind::divide})
      for (int broken = 0; broken < ranks; ++broken) {
        small.overlap = overlap;
        std::uint64_t const calls = 4 * (overlap ? 2 * static_cast<std::uint64_t>(ranks - 1) : 1);
        for (std::uint64_t k = 0; k < calls; ++k) {
          auto const got =
              run_tensor<linear_net, ring>(ranks, true, small, [&](threads_communicator own) {
                parallel::fault const none;
                parallel::fault const at_k{.at = k, .kind = kind};
                bool const mine = own.rank() == broken;
                return parallel::faulty(std::move(own), mine ? at_k : none);
              });
          ++mutants;
          if (got == one) ++survivors;
        }
      }
  CHECK(mutants == 3 * (2 * 8 + 3 * 16 + 3 * 4));
  CHECK(survivors == 0);
}

/// Bytes that rank 0 sends.
template <template <class, class> class Net>
std::uint64_t sent(int ranks, tensor_problem const& what) {
  auto const recorder = std::make_shared<parallel::flight_recorder>();
  static_cast<void>(run_tensor<Net, ring>(ranks, true, what, [&](threads_communicator own) {
    bool const counts = own.rank() == 0;
    return parallel::recorded(std::move(own),
                              counts ? recorder : std::make_shared<parallel::flight_recorder>());
  }));
  std::uint64_t sum = 0;
  for (auto const& [name, total] : recorder->totals()) sum += total.sent;
  return sum;
}

/// Bytes that the meta device counts for them.
template <template <class, class> class Net>
std::uint64_t planned(int ranks, tensor_problem const& what) {
  using Comm = threads_communicator;
  parallel::meta::stream compute;
  parallel::arena memory;
  parallel::context<parallel::meta::stream> c{.stream = compute, .memory = memory};
  tensor::region<Comm> const of{decltype(tensor::region<Comm>::group)::planned(0, ranks), true,
                                what.overlap};
  Net<ring, Comm> net;
  parallel::linear<ring> up{.weight = {"up", {what.hidden / ranks, what.width}}, .bias = {}};
  parallel::linear<ring> down{.weight = {"down", {what.width, what.hidden / ranks}}, .bias = {}};
  test::make_net<ring, Comm>(net, of, up, down, {});
  typename Net<ring, Comm>::saved kept;
  matrix_view<ring const> const x(nullptr, {what.rows / ranks, what.width});
  static_cast<void>(net.forward(c, x, kept));
  static_cast<void>(net.backward_input(c, x, kept));
  return compute.exchanges().at("tensor");
}

TEST_CASE("bytes sent are those of the unchunked exchange: 4 (t-1)/t of an activation") {
  tensor_problem const what;
  tensor_problem const whole{.overlap = false};
  auto const activation = static_cast<std::uint64_t>(what.rows * what.width) * sizeof(ring);
  for (int ranks = 2; ranks <= 5; ++ranks) {
    auto const t = static_cast<std::uint64_t>(ranks);
    auto const formula = 4 * activation / t * (t - 1);
    CHECK(sent<linear_net>(ranks, what) == formula);
    CHECK(sent<sliced_net>(ranks, what) == formula);
    CHECK(planned<linear_net>(ranks, what) == formula);
    CHECK(sent<linear_net>(ranks, whole) == formula);
    CHECK(planned<linear_net>(ranks, whole) == formula);
    CHECK(planned<sliced_net>(ranks, what) == formula);
  }
}

}  // namespace
}  // namespace linear_test
