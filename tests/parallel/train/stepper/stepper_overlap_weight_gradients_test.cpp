// Weight gradients on a separate stream, overlapped with the input gradients of the next block:
// they have the same bits in every layout, use the planned memory, and do overlap.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/delayed.hpp>

#include "support/devices/guarded_device.hpp"
#include "support/ring/ring_matrix.hpp"
#include "support/trace.hpp"

namespace stepper_overlap_weight_gradients_test {
namespace {

using namespace std::chrono_literals;
using parallel::index;
using test::layout;

std::vector<layout> layouts(std::size_t count) {
  std::vector<layout> out;
  for (auto const& run_layout : test::spread(test::all_layouts(8, 1), count))
    if (test::refusal(run_layout).empty()) {
      out.push_back(run_layout);
      out.back().schedule.overlap_weight_gradients = true;
    }
  return out;
}

TEST_CASE(
    "overlapped weight gradients: mixed layouts with random delays equal one rank bit for bit") {
  test::ring_references references;
  std::uint64_t seed = 0;
  for (auto const& run_layout : layouts(30)) {
    ++seed;
    auto const got = test::run(run_layout, [&](parallel::threads::communicator comm) {
      auto const own_seed = seed * 100 + static_cast<std::uint64_t>(comm.rank());
      return parallel::delayed(std::move(comm), {.seed = own_seed});
    });
    CHECK_MESSAGE(test::difference(got, references.outcome_of(run_layout)) == "",
                  test::text(run_layout));
  }
}

TEST_CASE(
    "overlapped weight gradients: device memory that the host cannot reach gives the same bits") {
  test::ring_references references;
  for (auto const& run_layout : layouts(10)) {
    auto const memory = std::make_shared<guarded::memory>(std::size_t{256} << 20);
    auto const got = test::run_on(run_layout, [&] { return guarded::device(memory); });
    CHECK_MESSAGE(test::difference(got, references.outcome_of(run_layout)) == "",
                  test::text(run_layout));
  }
}

/// The used and the planned bytes of activations of a step of one rank.
std::pair<std::size_t, std::size_t> memory_of(layout const& run_layout) {
  std::pair<std::size_t, std::size_t> out;
  parallel::threads::run(1, [&](parallel::threads::communicator& comm) {
    test::ring_rank one(parallel::any_communicator(std::move(comm)), run_layout);
    auto const data = one.data(0);
    static_cast<void>(one.step(0));
    out = {one.memory().peak(), one.stepper().plan_activations(data.batches())};
  });
  return out;
}

TEST_CASE("overlapped weight gradients: the second slot and the second gradient are planned") {
  layout run_layout;
  auto const [together, plan_together] = memory_of(run_layout);
  run_layout.schedule.overlap_weight_gradients = true;
  auto const [overlapped, plan_beside] = memory_of(run_layout);
  CHECK(together == plan_together);
  CHECK(overlapped == plan_beside);
  CHECK(overlapped > together);
}

/// Passes its input on, and logs when its gradients are computed.
struct logging_layer {
  using element = test::ring;
  using saved = parallel::matrix_view<test::ring const>;
  parallel::parameter<test::ring, 2> weight;
  test::trace* log = nullptr;
  int block = 0;

  template <class Stream>
  auto forward(parallel::context<Stream>& c, parallel::matrix_view<test::ring const> x,
               saved& saved_input) const {
    saved_input = x;
    auto const y = c.template allocate<test::ring, 2>(x.extents());
    parallel::ops::copy(c.stream, y.span(), x.span());
    return y;
  }
  template <class Stream>
  auto backward_input(parallel::context<Stream>& c, parallel::matrix_view<test::ring const> dy,
                      saved&) const {
    tell(c.stream, "input");
    auto const dx = c.template allocate<test::ring, 2>(dy.extents());
    parallel::ops::copy(c.stream, dx.span(), dy.span());
    return dx;
  }
  template <class Stream>
  void backward_weight(parallel::context<Stream>& c, saved const&) const {
    tell(c.stream, "weight");
  }
  void visit_parameters(auto&& visit) { visit(weight); }

 private:
  /// The weight gradients of block 1 wait for the input gradient of block 0.
  template <class Stream>
  void tell(Stream& queue, std::string const& event) const {
    if constexpr (requires { queue.enqueue([] {}); })
      queue.enqueue([this, event] {
        if (log == nullptr) return;
        if (block == 1 && event == "weight") {
          CHECK(log->await("input 0", 60s));
        }
        log->add(event + " " + std::to_string(block));
      });
  }
};

/// Blocks without the entry and the exit, which other ranks hold.
struct column {
  using element = test::ring;
  using block = logging_layer;
  using microbatch = test::ring_microbatch;
  std::vector<logging_layer> const& blocks;

  [[nodiscard]] std::size_t num_blocks() const { return blocks.size(); }
  [[nodiscard]] logging_layer const& at(std::size_t i) const { return blocks[i]; }
  [[nodiscard]] parallel::index rows(microbatch const&) const { return 2; }
  [[nodiscard]] parallel::index width() const { return 4; }
  [[nodiscard]] parallel::matrix_view<element> embed(auto&&...) const { return {}; }
  void head_loss(auto&&...) const {}
  void enter_backward(auto&&...) const {}
};

}  // namespace

TEST_CASE(
    "overlapped weight gradients: they run at the same time as the next block's input gradient") {
  test::trace log;
  parallel::host::stream compute, weights;
  std::vector<logging_layer> blocks(3);
  for (int i = 0; i < 3; ++i) {
    blocks[static_cast<std::size_t>(i)].log = &log;
    blocks[static_cast<std::size_t>(i)].block = i;
  }
  column const model{blocks};
  parallel::train::stage<column> const middle(model, {0, 3, false, false});
  parallel::host::device const device;
  parallel::arena memory(device.allocate<std::byte>(1 << 16));
  parallel::arena other(device.allocate<std::byte>(1 << 16));
  parallel::train::stage_activations<column> saved_input;
  saved_input.blocks.resize(3);
  saved_input.gradient = memory.allocate<test::ring, 2>({2, 4});
  auto const d_input = memory.allocate<test::ring, 2>({2, 4});
  for (auto& x : saved_input.gradient.span()) x = 5;
  parallel::context<parallel::host::stream> c{compute, memory};
  parallel::train::pass_memory<column> shared(memory, &other);
  parallel::train::statistics<test::ring> sums;
  // As in a plan, the weight gradients follow the earlier computations, and the next join follows
  // them.
  for (auto const& pass :
       parallel::train::passes_of(middle.range(), parallel::pipeline::action_kind::backward,
                                  parallel::pass::training, true)) {
    using enum parallel::train::pass_kind;
    bool const aside = pass.kind == backward_weight;
    if (aside) weights.wait(compute.record());
    if (pass.kind == join) compute.wait(weights.record());
    auto queue = aside ? c.with_stream(weights) : c;
    middle.run(pass, queue, shared, {}, {{}, d_input}, saved_input, sums);
    if (pass.kind == join)
      compute.enqueue(
          [&log, part = pass.model_part] { log.add("complete " + std::to_string(part)); });
  }
  compute.synchronize();
  CHECK(log.in_order("input 0", "weight 1"));
  for (auto const* const block : {"0", "1", "2"})
    CHECK(log.in_order(std::string("weight ") + block, std::string("complete ") + block));
  CHECK(log.in_order("complete 1", "complete 0"));
  CHECK(d_input(1, 3) == 5);
}

}  // namespace stepper_overlap_weight_gradients_test
