// column_linear and row_linear against one rank and against gather and reduce; with exchanges whole
// and chunked, deliberately broken, and the bytes that they send.
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

TEST_CASE(
    "tensor linear layers: 1 to 5 ranks give the bits of one rank, with and without divided rows") {
  auto const single = run_tensor<sliced_net, ring>(1, false, {});
  REQUIRE(single.down_bias != std::vector<ring>(7));
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (bool const sequence : {false, true}) {
      CAPTURE(ranks);
      CHECK(run_tensor<sliced_net, ring>(ranks, sequence, {}) == single);
      for (bool const overlap : {false, true})
        CHECK(run_tensor<linear_net, ring>(ranks, sequence, {.overlap = overlap}) == single);
    }
}

TEST_CASE(
    "tensor linear layers: adapters follow their layers' slices, exactly and without more "
    "exchanges") {
  tensor_problem problem{.rank = 3};
  auto const plain = run_tensor<sliced_net, ring>(1, false, {});
  auto const single = run_tensor<sliced_net, ring>(1, false, problem);
  CHECK(single.y != plain.y);
  REQUIRE(single.down_b != std::vector<ring>(7 * 3));
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (bool const sequence : {false, true}) {
      CAPTURE(ranks);
      CHECK(run_tensor<sliced_net, ring>(ranks, sequence, problem) == single);
      for (bool const overlap : {false, true}) {
        problem.overlap = overlap;
        CHECK(run_tensor<linear_net, ring>(ranks, sequence, problem) == single);
      }
    }
}

TEST_CASE(
    "tensor linear layers: dropout of adapters zeroes the same elements on any number of ranks") {
  tensor_problem problem{.rows = 12, .rank = 3, .dropout = 0.3F};
  auto const single = run_tensor<linear_net, double>(1, false, problem);
  auto without_dropout = problem;
  without_dropout.dropout = 0;
  CHECK(run_tensor<linear_net, double>(1, false, without_dropout).y != single.y);
  auto const is_close = [](std::vector<double> const& a, std::vector<double> const& b) {
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
        problem.overlap = overlap;
        auto const actual = run_tensor<linear_net, double>(ranks, sequence, problem);
        CHECK(is_close(single.y, actual.y));
        CHECK(is_close(single.dx, actual.dx));
        CHECK(is_close(single.up_a, actual.up_a));
        CHECK(is_close(single.up_b, actual.up_b));
        CHECK(is_close(single.down_a, actual.down_a));
        CHECK(is_close(single.down_b, actual.down_b));
      }
}

template <class T, class Comm>
using sliced_branch = parallel::residual<sliced_net<T, Comm>>;
template <class T, class Comm>
using linear_branch = parallel::residual<linear_net<T, Comm>>;

TEST_CASE(
    "tensor linear layers: a residual around a region is added once, on any number of ranks") {
  auto const inner = run_tensor<sliced_net, ring>(1, false, {});
  auto const single = run_tensor<sliced_branch, ring>(1, false, {});
  tensor_problem const problem;
  auto expected = inner;
  auto const x = test::random_numbers<ring>(problem.rows * problem.width, 1);
  auto const dy = test::random_numbers<ring>(problem.rows * problem.width, 2);
  for (std::size_t i = 0; i < x.size(); ++i) {
    expected.y[i] += x[i];
    expected.dx[i] += dy[i];
  }
  CHECK(single == expected);
  for (int ranks = 1; ranks <= 3; ++ranks)
    for (bool const sequence : {false, true}) {
      CAPTURE(ranks);
      CHECK(run_tensor<sliced_branch, ring>(ranks, sequence, {}) == single);
      CHECK(run_tensor<linear_branch, ring>(ranks, sequence, {}) == single);
    }
}

TEST_CASE_TEMPLATE("tensor linear layers: rounded results have the bits of the unchunked exchange",
                   T, double, float, parallel::bf16) {
  for (int const ranks : {2, 3, 5})
    for (bool const overlap : {false, true})
      CHECK(run_tensor<linear_net, T>(ranks, true, {.overlap = overlap}) ==
            run_tensor<sliced_net, T>(ranks, true, {}));
}

TEST_CASE("tensor linear layers: every broken exchange of every rank changes the result") {
  tensor_problem small{.rows = 12, .width = 3, .hidden = 12};
  auto const single = run_tensor<sliced_net, ring>(1, false, small);
  int mutants = 0;
  int survivors = 0;
  for (auto const& [ranks, overlap] : {std::pair{2, true}, {3, true}, {3, false}})
    for (auto const kind :
         {parallel::fault_kind::drop, parallel::fault_kind::twice, parallel::fault_kind::divide})
      for (int broken = 0; broken < ranks; ++broken) {
        small.overlap = overlap;
        std::uint64_t const calls = 4 * (overlap ? 2 * static_cast<std::uint64_t>(ranks - 1) : 1);
        for (std::uint64_t k = 0; k < calls; ++k) {
          auto const actual =
              run_tensor<linear_net, ring>(ranks, true, small, [&](threads_communicator comm) {
                parallel::fault const no_fault;
                parallel::fault const at_k{.call = k, .kind = kind};
                bool const is_broken = comm.rank() == broken;
                return parallel::faulty(std::move(comm), is_broken ? at_k : no_fault);
              });
          ++mutants;
          if (actual == single) ++survivors;
        }
      }
  CHECK(mutants == 3 * (2 * 8 + 3 * 16 + 3 * 4));
  CHECK(survivors == 0);
}

/// The bytes that rank 0 sends.
template <template <class, class> class Net>
std::uint64_t sent(int ranks, tensor_problem const& problem) {
  auto const recorder = std::make_shared<parallel::flight_recorder>();
  static_cast<void>(run_tensor<Net, ring>(ranks, true, problem, [&](threads_communicator comm) {
    bool const is_counted = comm.rank() == 0;
    return parallel::recorded(
        std::move(comm), is_counted ? recorder : std::make_shared<parallel::flight_recorder>());
  }));
  std::uint64_t sum = 0;
  for (auto const& [name, total] : recorder->totals()) sum += total.sent;
  return sum;
}

/// The bytes that the meta device counts for the same passes.
template <template <class, class> class Net>
std::uint64_t planned(int ranks, tensor_problem const& problem) {
  using Comm = threads_communicator;
  parallel::meta::stream compute;
  parallel::arena memory;
  parallel::context<parallel::meta::stream> c{.stream = compute, .memory = memory};
  tensor::region<Comm> const tensor_region{decltype(tensor::region<Comm>::group)::planned(0, ranks),
                                           true, problem.overlap};
  Net<ring, Comm> net;
  parallel::linear<ring> up{.weight = {"up", {problem.hidden / ranks, problem.width}}, .bias = {}};
  parallel::linear<ring> down{.weight = {"down", {problem.width, problem.hidden / ranks}},
                              .bias = {}};
  test::make_net<ring, Comm>(net, tensor_region, up, down, {});
  typename Net<ring, Comm>::saved state;
  matrix_view<ring const> const x(nullptr, {problem.rows / ranks, problem.width});
  static_cast<void>(net.forward(c, x, state));
  static_cast<void>(net.backward_input(c, x, state));
  return compute.exchanges().at("tensor");
}

TEST_CASE(
    "tensor linear layers: they send the bytes of the unchunked exchange, 4 (t-1)/t of an "
    "activation") {
  tensor_problem const problem;
  tensor_problem const unchunked{.overlap = false};
  auto const activation = static_cast<std::uint64_t>(problem.rows * problem.width) * sizeof(ring);
  for (int ranks = 2; ranks <= 5; ++ranks) {
    auto const t = static_cast<std::uint64_t>(ranks);
    auto const formula = 4 * activation / t * (t - 1);
    CHECK(sent<linear_net>(ranks, problem) == formula);
    CHECK(sent<sliced_net>(ranks, problem) == formula);
    CHECK(planned<linear_net>(ranks, problem) == formula);
    CHECK(sent<linear_net>(ranks, unchunked) == formula);
    CHECK(planned<linear_net>(ranks, unchunked) == formula);
    CHECK(planned<sliced_net>(ranks, problem) == formula);
  }
}

}  // namespace
}  // namespace linear_test
