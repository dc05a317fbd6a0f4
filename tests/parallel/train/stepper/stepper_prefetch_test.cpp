// Prefetching, shown by the order of events and not by timing. At level parameters the values of
// the next block are gathered while a block computes, but never those of a third block. At lower
// levels the values that a step has updated are gathered during the passes of the next step.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/train/stepper.hpp>

#include "support/ring/ring_model.hpp"
#include "support/trace.hpp"

namespace stepper_prefetch_test {
namespace {

using namespace std::chrono_literals;
using parallel::index;
using test::ring;
namespace zero = parallel::zero;

/// Called within a block's pass; for block 2, `pass` is "forward 2" or "backward 2".
using pass_hold = std::function<void(test::trace&, std::string const& pass)>;

/// A block of the ring model that logs when its passes begin and end.
struct traced_block {
  using element = ring;
  using saved = test::ring_model::block::saved;

  template <class Stream>
  auto forward(test::context<Stream>& c, test::matrix_view<ring const> x,
               saved& saved_input) const {
    begin(c, "forward");
    auto const y = inner->forward(c, x, saved_input);
    end(c, "forward");
    return y;
  }
  template <class Stream>
  auto backward_input(test::context<Stream>& c, test::matrix_view<ring const> dy,
                      saved& saved_input) const {
    begin(c, "backward");
    return inner->backward_input(c, dy, saved_input);
  }
  template <class Stream>
  void backward_weight(test::context<Stream>& c, saved const& saved_input) const {
    inner->backward_weight(c, saved_input);
    end(c, "backward");
  }

  template <class Stream>
  void begin(test::context<Stream>& c, char const* pass) const {
    c.stream.enqueue([this, name = parallel::concat(pass, ' ', number)] {
      log->add(name + " begins");
      (*hold)(*log, name);
    });
  }
  template <class Stream>
  void end(test::context<Stream>& c, char const* pass) const {
    c.stream.enqueue(
        [this, name = parallel::concat(pass, ' ', number)] { log->add(name + " ends"); });
  }

  test::ring_model::block const* inner;
  index number;
  test::trace* log;
  pass_hold const* hold;
};

class traced_model : public test::ring_model {
 public:
  using block = traced_block;

  traced_model(test::trace& log, pass_hold const& hold) : test::ring_model(3, 4, 13) {
    for (std::size_t i = 0; i < num_blocks(); ++i)
      blocks_.push_back({&test::ring_model::at(i), static_cast<index>(i), &log, &hold});
  }
  [[nodiscard]] block const& at(std::size_t i) const { return blocks_[i]; }

 private:
  std::deque<block> blocks_;
};

/// Called before a collective of the last step with its number in that step.
using exchange_hold = std::function<void(test::trace&, int)>;

/// Makes `steps` steps of two microbatches on 2 ranks. Only the last step is logged and held; calls
/// check(log, the first collective of that step) when it is done.
void run(parallel::train::stepper_options const& options, int steps, pass_hold const& hold,
         exchange_hold const& hold_exchange, std::function<void(test::trace&, int)> const& check) {
  parallel::threads::run(2, [&](parallel::threads::communicator& comm_of_rank) {
    test::trace log;
    std::atomic<int> calls = 0, held_call = std::numeric_limits<int>::max();
    test::delayed comm(std::move(comm_of_rank), log, [&](int k) {
      ++calls;
      if (k >= held_call) hold_exchange(log, k - held_call);
    });
    pass_hold const hold_last = [&](test::trace& log_of_rank, std::string const& pass) {
      if (held_call < std::numeric_limits<int>::max()) hold(log_of_rank, pass);
    };
    parallel::host::device device;
    traced_model model(log, hold_last);
    parallel::train::stepper step(model, device, comm, test::ring_momentum{}, options);
    step.initialise(1);
    parallel::arena memory(device.allocate<std::byte>(1 << 20));
    parallel::host::stream compute;
    parallel::host::stream exchanges;
    std::vector<std::int32_t> const ids(5, 1);
    std::array<test::ring_microbatch, 2> batches;
    batches.fill({{ids.data(), {5}}, {ids.data(), {5}}, 1, 5, 5});
    std::array<index, 2> const first{2 * comm.rank(), 2 * comm.rank() + 1};
    for (int i = 0; i < steps; ++i) {
      if (i + 1 == steps) held_call = calls.load();
      log.clear();
      (void)step.step(compute, exchanges, memory,
                      {batches, first, {.step = static_cast<std::uint32_t>(i)}, 1.0});
    }
    check(log, held_call);
  });
}

// The collectives of a microbatch are enqueued in this order: values of the entry, of blocks 0, 1
// and 2, and of the exit (two units); gradients of the exit; values and gradients of blocks 2, 1,
// 0; gradients of the entry.
constexpr int forward_gathers[] = {1, 2, 3};  // by block
constexpr int backward_gathers[] = {12, 10, 8};
constexpr int collectives = 15;

parallel::train::stepper_options const sharded{.level = zero::level::parameters};

std::string gather(int k, char const* kind) { return parallel::concat("collective ", k, kind); }

TEST_CASE("prefetch: the next block's values arrive while a block computes, in both passes") {
  run(
      sharded, 1,
      [](test::trace& log, std::string const& pass) {
        // Without prefetching these passes would wait for later collectives.
        if (pass == "forward 0") CHECK(log.await(gather(forward_gathers[1], " ends"), 60s));
        if (pass == "forward 1") CHECK(log.await(gather(forward_gathers[2], " ends"), 60s));
        if (pass == "backward 2") CHECK(log.await(gather(backward_gathers[1], " ends"), 60s));
        if (pass == "backward 1") CHECK(log.await(gather(backward_gathers[0], " ends"), 60s));
      },
      [](test::trace&, int) {},
      [](test::trace& log, int) {
        CHECK(log.in_order(gather(forward_gathers[1], " ends"), "forward 0 ends"));
        CHECK(log.in_order(gather(forward_gathers[2], " ends"), "forward 1 ends"));
        CHECK(log.in_order(gather(backward_gathers[1], " ends"), "backward 2 ends"));
        CHECK(log.in_order(gather(backward_gathers[0], " ends"), "backward 1 ends"));
      });
}

TEST_CASE("prefetch: the values of at most two blocks are gathered at once") {
  run(
      sharded, 1,
      [](test::trace&, std::string const&) {
        std::this_thread::sleep_for(2ms);  // enough time for a third block's values to arrive
      },
      [](test::trace&, int) {},
      [](test::trace& log, int) {
        int in_use = 0;
        int max_in_use = 0;
        int passes = 0;
        for (auto const& event : log.events()) {
          for (int m = 0; m < 2; ++m)
            for (int block = 0; block < 3; ++block)
              if (event == gather(m * collectives + forward_gathers[block], " begins") ||
                  event == gather(m * collectives + backward_gathers[block], " begins"))
                ++in_use;
          if (event.ends_with(" ends") && !event.starts_with("collective")) {
            --in_use;
            ++passes;
          }
          max_in_use = std::max(max_in_use, in_use);
          CHECK(in_use >= 0);
        }
        CHECK(max_in_use == 2);
        CHECK(in_use == 0);
        CHECK(passes == 2 * 2 * 3);
      });
}

TEST_CASE("prefetch: updated values are gathered during the next step's passes, before their use") {
  // The first collectives of a step gather values of the entry, of blocks 0, 1 and 2, and of the
  // exit.
  constexpr int of_block[] = {1, 2, 3};
  for (auto const level : {zero::level::optimizer, zero::level::gradients})
    run(
        {.level = level, .gather_before_use = true}, 2, [](test::trace&, std::string const&) {},
        [&](test::trace& log, int k) {
          // If the previous step gathered them at its end, this pass would wait for a later
          // collective.
          if (k == of_block[2]) CHECK(log.await("forward 0 begins", 60s));
          if (k == of_block[1])
            std::this_thread::sleep_for(20ms);  // a pass that does not wait would be first
        },
        [&](test::trace& log, int first) {
          CHECK(log.in_order("forward 0 begins", gather(first + of_block[2], " ends")));
          for (int block = 0; block < 3; ++block)
            CHECK(log.in_order(gather(first + of_block[block], " ends"),
                               parallel::concat("forward ", block, " begins")));
        });
}

}  // namespace
}  // namespace stepper_prefetch_test
