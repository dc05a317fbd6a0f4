// The chunked ends of a region against one rank, against the unchunked ones, broken on purpose, and
// what they send.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <utility>

#include <parallel/comm/faulty.hpp>
#include <parallel/comm/recorded.hpp>

#include "support/tensor_run.hpp"

namespace overlapped_layers_test {
namespace {

using ring = std::uint64_t;
using parallel::matrix_view;
using test::overlapped_net;
using test::plain_net;
using test::run_tensor;
using test::tensor_problem;
namespace tensor = parallel::tensor;
using threads_communicator = parallel::threads::communicator;

TEST_CASE("1 to 5 ranks compute what one computes, bit for bit, with rows divided and without") {
  auto const one = run_tensor<plain_net, ring>(1, false, {});
  REQUIRE(one.down_bias != std::vector<ring>(7));
  for (int ranks = 1; ranks <= 5; ++ranks)
    for (bool const sequence : {false, true}) {
      CAPTURE(ranks);
      CHECK(run_tensor<plain_net, ring>(ranks, sequence, {}) == one);
      CHECK(run_tensor<overlapped_net, ring>(ranks, sequence, {}) == one);
    }
}

template <class T, class Comm>
using plain_branch = parallel::residual<plain_net<T, Comm>>;
template <class T, class Comm>
using overlapped_branch = parallel::residual<overlapped_net<T, Comm>>;

TEST_CASE("around a region, what is not divided is added once, on any number of ranks") {
  auto const inner = run_tensor<plain_net, ring>(1, false, {});
  auto const one = run_tensor<plain_branch, ring>(1, false, {});
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
      CHECK(run_tensor<plain_branch, ring>(ranks, sequence, {}) == one);
      CHECK(run_tensor<overlapped_branch, ring>(ranks, sequence, {}) == one);
    }
}

TEST_CASE_TEMPLATE("rounded numbers have the bits of the unchunked exchange", T, double, float,
                   parallel::bf16) {
  for (int const ranks : {2, 3, 5})
    CHECK(run_tensor<overlapped_net, T>(ranks, true, {}) ==
          run_tensor<plain_net, T>(ranks, true, {}));
}

TEST_CASE("every exchange of every rank, broken in each way, is noticed") {
  tensor_problem const small{.rows = 12, .width = 3, .hidden = 12};
  auto const one = run_tensor<plain_net, ring>(1, false, small);
  int mutants = 0;
  int survivors = 0;
  for (int const ranks : {2, 3})
    for (auto const kind :
         {parallel::fault_kind::drop, parallel::fault_kind::twice, parallel::fault_kind::divide})
      for (int broken = 0; broken < ranks; ++broken) {
        std::uint64_t const calls = 4 * 2 * (static_cast<std::uint64_t>(ranks) - 1);
        for (std::uint64_t k = 0; k < calls; ++k) {
          auto const got =
              run_tensor<overlapped_net, ring>(ranks, true, small, [&](threads_communicator own) {
                parallel::fault const none;
                parallel::fault const at_k{.at = k, .kind = kind};
                bool const mine = own.rank() == broken;
                return parallel::faulty(std::move(own), mine ? at_k : none);
              });
          ++mutants;
          if (got == one) ++survivors;
        }
      }
  CHECK(mutants == 3 * (2 * 8 + 3 * 16));
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
  tensor::region<Comm> const of{decltype(tensor::region<Comm>::group)::planned(0, ranks), true};
  Net<ring, Comm> net;
  parallel::linear<ring> up{.weight = {"up", {what.hidden / ranks, what.width}}, .bias = {}};
  parallel::linear<ring> down{.weight = {"down", {what.width, what.hidden / ranks}}, .bias = {}};
  test::make_net<ring, Comm>(net, of, up, down, {});
  typename Net<ring, Comm>::saved kept;
  matrix_view<ring const> const x(nullptr, {what.rows / ranks, what.width});
  static_cast<void>(net.forward(c, x, kept));
  static_cast<void>(net.backward_input(c, x, kept));
  return compute.traffic().at("tensor");
}

TEST_CASE("bytes sent are those of the unchunked exchange: 4 (t-1)/t of an activation") {
  tensor_problem const what;
  auto const activation = static_cast<std::uint64_t>(what.rows * what.width) * sizeof(ring);
  for (int ranks = 2; ranks <= 5; ++ranks) {
    auto const t = static_cast<std::uint64_t>(ranks);
    auto const formula = 4 * activation / t * (t - 1);
    CHECK(sent<overlapped_net>(ranks, what) == formula);
    CHECK(sent<plain_net>(ranks, what) == formula);
    CHECK(planned<overlapped_net>(ranks, what) == formula);
    CHECK(planned<plain_net>(ranks, what) == formula);
  }
}

}  // namespace
}  // namespace overlapped_layers_test
