// Waits of the host between and in steps over NCCL's classes that other waits often stand in front
// of. Streams are lazy (see fake_cuda/waits_test.cpp): whoever does not wait finds that nothing has
// happened yet, or failed, in every run.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/nccl/comm_stream.hpp>
#include <parallel/conformance/values.hpp>
#include <parallel/core/machine_name.hpp>
#include <parallel/train/corruption_check.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/ranks.hpp"
#include "support/ring_items_cuda.hpp"
#include "support/ring_run.hpp"

namespace fake_nccl_waits_test {
namespace {

using parallel::cuda::stream;
using parallel::nccl::communicator;
using any_communicator = parallel::basic_any_communicator<stream>;
using rank_type = test::ring_rank<parallel::cuda::device, any_communicator>;
using stepper_type = std::remove_reference_t<decltype(std::declval<rank_type&>().stepper())>;
using check_type = parallel::train::corruption_check<stepper_type>;
using parallel::conformance::message_of;

/// program(rank) for all ranks of a layout, on lazy GPUs.
template <class Program>
void on_lazy_gpus(test::layout const& how, Program const& program) {
  int const ranks = how.shape().ranks();
  fake_cuda::restart({.devices = ranks, .peers = false, .lazy = true});
  fake_nccl::restart();
  fake_nccl::ranks()(ranks, [&](communicator& comm) {
    rank_type one(any_communicator(std::move(comm)), how, fake_cuda::current_gpu());
    program(one);
  });
}

/// Whether a stream has nothing left to do.
bool is_idle(stream& of) { return cudaStreamQuery(of.get()) == cudaSuccess; }

TEST_CASE("states are cleared for whoever reads them, on whatever stream") {
  test::layout const how;
  on_lazy_gpus(how, [](rank_type& one) {
    static_cast<void>(one.step(0));
    auto const sum = [&] {
      test::ring out = 0;
      for (auto const& unit : one.stepper().units())
        for (auto const& segment : unit.memory.segments())
          for (auto const& state : segment.states)
            parallel::read_on_host(one.device(), state.span(),
                                   [&](std::span<test::ring const> here) {
                                     for (auto const x : here) out |= x;
                                   });
      return out;
    };
    CHECK(sum() != 0);
    one.stepper().clear_states(one.compute());
    CHECK(sum() == 0);
  });
  CHECK(fake_cuda::happened().failures.empty());
}

TEST_CASE("an evaluation is over when it has been added") {
  test::layout const how;
  on_lazy_gpus(how, [](rank_type& one) {
    auto const data = one.data(0);
    parallel::arena memory(one.device().allocate<std::byte>(
        one.stepper().plan_activations(data.batches(), parallel::pass::inference)));
    parallel::train::statistics_sum<test::ring> sums;
    one.stepper().add_evaluation(one.compute(), memory, data.batches(), sums);
    std::int64_t tokens = 0;
    for (auto const& batch : data.batches()) tokens += batch.loss_tokens;
    CHECK(tokens > 0);
    CHECK(sums.local().tokens == tokens);
    CHECK(sums.local().loss != 0);
  });
  CHECK(fake_cuda::happened().failures.empty());
}

TEST_CASE("who calls something else while a step is under way is refused when nothing runs") {
  test::layout const how;
  on_lazy_gpus(how, [](rank_type& one) {
    one.prepare(0);
    one.begin(0);
    CHECK(!is_idle(one.compute()));
    CHECK_THROWS(one.stepper().initialise(1));
    CHECK(is_idle(one.compute()));
    CHECK(one.finish().updated());
  });
  CHECK(fake_cuda::happened().failures.empty());
}

/// What is said where each GPU fails as soon as somebody waits for its exchanges, and then
/// call(rank) is made.
template <class Call>
std::string told_of_failure(test::layout const& how, Call const& call) {
  return message_of([&] {
    on_lazy_gpus(how, [&](rank_type& one) {
      static_cast<void>(fake_cuda::enqueue(one.exchanges().get(), "a test's work", [] {
        throw std::runtime_error("the machine is on fire");
      }));
      call(one);
      parallel::fail("nobody has noticed");
    });
  });
}

TEST_CASE("a GPU that fails while values are shared, or what was found is told, is noticed") {
  auto const shared = told_of_failure(
      {.ranks = 2}, [](rank_type& one) { one.stepper().share_filled(one.exchanges(), true); });
  CHECK(shared.find("cudaEventSynchronize") != std::string::npos);
  auto const found = told_of_failure({.ranks = 2}, [](rank_type& one) {
    check_type check(one.stepper());
    static_cast<void>(check.describe(one.exchanges(), {}));
  });
  CHECK(found.find("cudaEventSynchronize") != std::string::npos);
}

/// A rank's data of a step, and of others.
struct work_of_ranks {
  rank_type& one;
  test::layout how;
  std::optional<test::step_data<parallel::cuda::device>> others = {};

  [[nodiscard]] auto of(int data_rank) const {
    return test::step_data<parallel::cuda::device>(
        one.device(), how, data_rank, 0,
        one.stepper().least_microbatches(test::max_microbatches(how)));
  }
  check_type::work operator()(int data_rank) {
    others.emplace(of(data_rank));
    return {others->batches().front(), others->first_sequences().front()};
  }
};

TEST_CASE("checked steps compare what was computed, and exchanged") {
  test::layout const how{.ranks = 2};
  std::vector<std::string> told(2);
  on_lazy_gpus(how, [&](rank_type& one) {
    check_type check(one.stepper());
    work_of_ranks work{one, how};
    auto const own = work.of(one.rank());
    parallel::arena memory(
        one.device().allocate<std::byte>(one.stepper().plan_activations(own.batches())));
    auto const done =
        check.step(one.compute(), one.exchanges(), memory, own.batches(), own.first_sequences(),
                   {.seed = 42, .step = 0}, 1.0, [&](int data_rank) { return work(data_rank); });
    CHECK(done.faults.empty());
    CHECK(done.step.updated());

    if (one.rank() == 1) {
      auto const& values = one.stepper().units().front().memory.segments().front().values;
      parallel::write_from_host(one.device(), values.span().first(1), [](auto x) { x[0] = 99; });
    }
    auto const faults = check.compare_copies(one.compute(), one.exchanges());
    CHECK(!faults.empty());
    told[static_cast<std::size_t>(one.rank())] = check.describe(one.exchanges(), faults);
  });
  for (auto const& one : told) CHECK(one.find(parallel::machine_name()) != std::string::npos);
  CHECK(fake_cuda::happened().failures.empty());
}

TEST_CASE("what ranks say to each other is there when it is read") {
  fake_cuda::restart({.devices = 3, .peers = false, .lazy = true});
  fake_nccl::restart();
  fake_nccl::ranks()(3, [](communicator& comm) {
    for (int round = 0; round < 2; ++round) {
      auto const said = comm.open_exchange()({.peer = 10 * round + comm.rank()});
      for (int rank = 0; rank < 3; ++rank)
        CHECK(said[static_cast<std::size_t>(rank)].peer == 10 * round + rank);
    }
  });
  CHECK(fake_cuda::happened().failures.empty());
}

}  // namespace
}  // namespace fake_nccl_waits_test
