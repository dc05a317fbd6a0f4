// An exception in a step: the other ranks get its message, and when it leaves the step, nothing
// uses the step's memory any more.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/coloring.hpp>
#include <parallel/train/attempt.hpp>

#include "support/ring/ring_run.hpp"

namespace attempt_test {

using namespace std::chrono_literals;
using parallel::host::stream;

TEST_CASE(
    "attempt: draining a failed stream waits for the work it depended on; another stream is left "
    "alone") {
  std::atomic<bool> is_over = false;
  stream compute, exchange;
  exchange.enqueue([&] {
    std::this_thread::sleep_for(100ms);
    is_over = true;
  });
  auto const exchanged = exchange.record();
  std::atomic<bool> may_fail = false;
  compute.enqueue([&] {
    while (!may_fail) std::this_thread::sleep_for(1ms);
    throw parallel::error("the machine is on fire");
  });
  compute.wait(exchanged);  // skipped
  may_fail = true;
  CHECK_THROWS_WITH(compute.synchronize(), "the machine is on fire");
  CHECK(!is_over);
  parallel::train::drain(compute);
  CHECK(is_over);
  stream fine;
  fine.enqueue([&] { is_over = false; });
  parallel::train::drain(fine);
  CHECK(!is_over);
  CHECK_NOTHROW(fine.synchronize());
}

/// A failure planned for one rank of a run.
struct planned_failure {
  stream* compute = nullptr;           // of the rank; null before its steps begin
  std::uint64_t failing_call = 0;      // the call of the step after which a computation fails
  std::chrono::milliseconds delay{0};  // the time from that call to the failure
  std::atomic<std::uint64_t> call_count = 0;  // so far
  std::atomic<int> pending_exchanges = 0;     // exchanges that may still write their output
};

/// Counts while it lives: a task does until it has run or has been skipped.
struct token {
  explicit token(std::atomic<int>& counter) : count(counter) { ++count; }
  token(token const&) = delete;
  token& operator=(token const&) = delete;
  ~token() { --count; }
  std::atomic<int>& count;
};

/// A communicator on which a computation fails in the middle of a step, while an exchange is slow.
class failing_communicator : public parallel::collectives<failing_communicator> {
 public:
  failing_communicator(parallel::threads::communicator inner,
                       std::shared_ptr<planned_failure> planned)
      : inner_(std::move(inner)), failure_(std::move(planned)) {}

  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  [[nodiscard]] int world_rank(int rank) const { return inner_.world_rank(rank); }
  [[nodiscard]] std::string_view name() const { return inner_.name(); }
  void abort(std::string const& reason) { inner_.abort(reason); }

  parallel::request submit(stream& s, parallel::operation const& op) {
    if (failure_ == nullptr || failure_->compute == nullptr) return inner_.submit(s, op);
    bool const is_failing_call = failure_->call_count++ == failure_->failing_call;
    s.enqueue([is_failing_call, token = std::make_unique<token>(failure_->pending_exchanges)] {
      if (is_failing_call) std::this_thread::sleep_for(200ms);
    });
    auto out = inner_.submit(s, op);
    if (is_failing_call)
      failure_->compute->enqueue([delay = failure_->delay] {
        std::this_thread::sleep_for(delay);
        throw parallel::error("the machine is on fire");
      });
    return out;
  }
  [[nodiscard]] parallel::signature_exchange open_exchange(
      stream const* exchange_stream = nullptr) {
    return inner_.open_exchange(exchange_stream);
  }
  [[nodiscard]] failing_communicator split(parallel::coloring const& colors,
                                           std::string name = {}) {
    return {inner_.split(colors, std::move(name)), failure_};
  }

 private:
  parallel::threads::communicator inner_;
  std::shared_ptr<planned_failure> failure_;
};

/// Runs a step on every rank, where the last has the failure; checks the message on each. A
/// deadline ends a rank that gets no message.
void check_failure(test::layout const& run_layout, std::uint64_t failing_call,
                   std::chrono::milliseconds delay) {
  int const ranks = run_layout.shape().ranks();
  std::vector<std::string> messages(static_cast<std::size_t>(ranks));
  parallel::threads::run(
      ranks,
      [&](parallel::threads::communicator& comm) {
        int const own_rank = comm.rank();
        auto const planned = std::make_shared<planned_failure>();
        planned->failing_call = failing_call;
        planned->delay = delay;
        test::ring_rank<> rank(parallel::any_communicator(failing_communicator(
                                   std::move(comm), own_rank == ranks - 1 ? planned : nullptr)),
                               run_layout);
        rank.world().barrier(rank.compute()).wait();  // all ranks exist and begin their steps
        planned->compute = &rank.compute();
        try {
          (void)rank.step(0);
        } catch (parallel::error const& thrown) {
          messages[static_cast<std::size_t>(own_rank)] = thrown.what();
        }
        CHECK(planned->pending_exchanges == 0);
      },
      {.deadline = 5s});
  for (int r = 0; r + 1 < ranks; ++r)
    CHECK(messages[static_cast<std::size_t>(r)] ==
          parallel::concat("rank ", ranks - 1, " failed: the machine is on fire"));
  CHECK(messages.back() == "the machine is on fire");
}

TEST_CASE(
    "attempt: an exception in a step leaves no exchange pending, and all ranks get its message") {
  test::ring_options const ring{.attention = {.heads = 4}};
  test::ring_sizes const sizes{.width = 4, .vocabulary = 16, .length = 8};
  test::layout const single_rank{.microbatch = 3, .model = ring, .sizes = sizes};
  std::vector<test::layout> layouts(5, single_rank);
  layouts[0].tensor = 2;
  layouts[1].context = 2;
  layouts[2].pipeline = 2;
  layouts[3].ranks = 2;
  layouts[3].level = test::zero::level::parameters;
  layouts[4].ranks = layouts[4].pipeline = layouts[4].tensor = 2;
  layouts[4].level = test::zero::level::gradients;
  for (std::size_t i = 0; i < layouts.size(); ++i)
    for (std::uint64_t const failing_call : {0U, 3U, 6U})
      for (auto const delay : {0ms, 20ms}) {
        CAPTURE(i);
        CAPTURE(failing_call);
        CAPTURE(delay.count());
        check_failure(layouts[i], failing_call, delay);
      }
}

}  // namespace attempt_test
