// Waits of the host between and in steps over NCCL's classes that other waits often precede.
// Streams are lazy (see fake_cuda/waits_test.cpp): code without the wait finds, in every run, that
// the work has neither happened nor failed.
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
#include <parallel/train/checks/corruption_check.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/ranks.hpp"
#include "support/ring/ring_items_cuda.hpp"
#include "support/ring/ring_run.hpp"

namespace fake_nccl_waits_test {
namespace {

using parallel::cuda::stream;
using parallel::nccl::communicator;
using any_communicator = parallel::basic_any_communicator<stream>;
using rank_type = test::ring_rank<parallel::cuda::device, any_communicator>;
using session_type = std::remove_reference_t<decltype(std::declval<rank_type&>().session())>;
using check_type = parallel::train::corruption_check<session_type>;
using parallel::conformance::message_of;

/// Calls program(rank) for all ranks of a layout, on lazy GPUs.
template <class Program>
void on_lazy_gpus(test::layout const& layout, Program const& program) {
  int const ranks = layout.shape().ranks();
  fake_cuda::restart({.devices = ranks, .peers = false, .lazy = true});
  fake_nccl::restart();
  fake_nccl::ranks()(ranks, [&](communicator& comm) {
    rank_type one(any_communicator(std::move(comm)), layout, fake_cuda::current_gpu());
    program(one);
  });
}

/// Whether all work of a stream has run.
bool is_idle(stream& gpu_stream) { return cudaStreamQuery(gpu_stream.get()) == cudaSuccess; }

TEST_CASE("stepper over NCCL: clear_states is complete for a reader on any stream") {
  test::layout const layout;
  on_lazy_gpus(layout, [](rank_type& one) {
    static_cast<void>(one.step(0));
    auto const sum = [&] {
      test::ring out = 0;
      for (auto const& unit : one.stepper().units())
        for (auto const& segment : unit.memory.segments())
          for (auto const& state : segment.states)
            parallel::read_on_host(one.device(), state.span(),
                                   [&](std::span<test::ring const> values) {
                                     for (auto const x : values) out |= x;
                                   });
      return out;
    };
    CHECK(sum() != 0);
    one.stepper().clear_states(one.compute());
    CHECK(sum() == 0);
  });
  CHECK(fake_cuda::history().failures.empty());
}

TEST_CASE("stepper over NCCL: add_evaluation returns when the sums are complete") {
  test::layout const layout;
  on_lazy_gpus(layout, [](rank_type& one) {
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
  CHECK(fake_cuda::history().failures.empty());
}

TEST_CASE("stepper over NCCL: another call during a step is refused after the work has run") {
  test::layout const layout;
  on_lazy_gpus(layout, [](rank_type& one) {
    one.prepare(0);
    one.begin(0);
    CHECK(!is_idle(one.compute()));
    CHECK_THROWS(one.stepper().initialise(1));
    CHECK(is_idle(one.compute()));
    CHECK(one.finish().updated());
  });
  CHECK(fake_cuda::history().failures.empty());
}

/// The message of call(rank) on GPUs that fail as soon as a thread waits for their exchanges.
template <class Call>
std::string failure_message(test::layout const& layout, Call const& call) {
  return message_of([&] {
    on_lazy_gpus(layout, [&](rank_type& one) {
      static_cast<void>(fake_cuda::enqueue(one.exchanges().get(), "a test's work", [] {
        throw std::runtime_error("the machine is on fire");
      }));
      call(one);
      parallel::fail("nobody has noticed");
    });
  });
}

TEST_CASE("stepper over NCCL: share_filled and the corruption check notice a failed GPU") {
  auto const shared = failure_message(
      {.ranks = 2}, [](rank_type& one) { one.stepper().share_filled(one.exchanges(), true); });
  CHECK(shared.find("cudaEventSynchronize") != std::string::npos);
  auto const found = failure_message({.ranks = 2}, [](rank_type& one) {
    check_type check(one.session());
    static_cast<void>(check.describe({}));
  });
  CHECK(found.find("cudaEventSynchronize") != std::string::npos);
}

/// The data of a rank's step, and of other ranks' steps.
struct work_of_ranks {
  rank_type& one;
  test::layout layout;
  std::optional<test::step_data<parallel::cuda::device>> other_data = {};

  [[nodiscard]] auto data_of(int data_rank) const {
    return test::step_data<parallel::cuda::device>(
        one.device(), layout, data_rank, 0,
        one.stepper().least_microbatches(test::max_microbatches(layout)));
  }
  check_type::work operator()(int data_rank) {
    other_data.emplace(data_of(data_rank));
    return {other_data->batches().front(), other_data->first_sequences().front()};
  }
};

TEST_CASE("corruption check over NCCL: compares computed gradients and exchanged copies") {
  test::layout const layout{.ranks = 2};
  std::vector<std::string> messages(2);
  on_lazy_gpus(layout, [&](rank_type& one) {
    check_type check(one.session());
    work_of_ranks work{one, layout};
    auto const own_data = work.data_of(one.rank());
    auto const result =
        check.step({own_data.batches(), own_data.first_sequences(), {.seed = 42, .step = 0}},
                   [&](int data_rank) { return work(data_rank); });
    CHECK(result.faults.empty());
    CHECK(result.step.updated());

    if (one.rank() == 1) {
      auto const& values = one.stepper().units().front().memory.segments().front().values;
      parallel::write_from_host(one.device(), values.span().first(1), [](auto x) { x[0] = 99; });
    }
    auto const faults = check.compare_copies();
    CHECK(!faults.empty());
    messages[static_cast<std::size_t>(one.rank())] = check.describe(faults);
  });
  for (auto const& one : messages) CHECK(one.find(parallel::machine_name()) != std::string::npos);
  CHECK(fake_cuda::history().failures.empty());
}

TEST_CASE("NCCL: open_exchange returns when all ranks' announcements have arrived") {
  fake_cuda::restart({.devices = 3, .peers = false, .lazy = true});
  fake_nccl::restart();
  fake_nccl::ranks()(3, [](communicator& comm) {
    for (int round = 0; round < 2; ++round) {
      auto const announcements = comm.open_exchange()({.peer = 10 * round + comm.rank()});
      for (int rank = 0; rank < 3; ++rank)
        CHECK(announcements[static_cast<std::size_t>(rank)].peer == 10 * round + rank);
    }
  });
  CHECK(fake_cuda::history().failures.empty());
}

}  // namespace
}  // namespace fake_nccl_waits_test
