// An exception in a step: the other ranks are told what it says, and when it leaves nothing uses
// the step's memory any more.
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

#include "support/ring_run.hpp"

namespace attempt_test {

using namespace std::chrono_literals;
using parallel::host::stream;

TEST_CASE("a failed stream is drained of what it waited for, and of nothing when all went well") {
  std::atomic<bool> is_over = false;
  stream compute, exchange;
  exchange.enqueue([&] {
    std::this_thread::sleep_for(100ms);
    is_over = true;
  });
  auto const exchanged = exchange.record();
  std::atomic<bool> go = false;
  compute.enqueue([&] {
    while (!go) std::this_thread::sleep_for(1ms);
    throw parallel::error("the machine is on fire");
  });
  compute.wait(exchanged);  // skipped
  go = true;
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

/// What goes wrong on one rank of a run.
struct accident {
  stream* compute = nullptr;             // of the rank; null before its steps begin
  std::uint64_t at = 0;                  // the call of the step after which computing fails,
  std::chrono::milliseconds after{0};    // so much later
  std::atomic<std::uint64_t> calls = 0;  // so far
  std::atomic<int> under_way = 0;        // exchanges that may still write their output
};

/// Counts while it lives: a task does until it has run, or been left out.
struct token {
  explicit token(std::atomic<int>& counter) : count(counter) { ++count; }
  token(token const&) = delete;
  token& operator=(token const&) = delete;
  ~token() { --count; }
  std::atomic<int>& count;
};

/// Every exchange takes some time, and in the middle of a step a computation fails.
class unlucky : public parallel::collectives<unlucky> {
 public:
  unlucky(parallel::threads::communicator inner, std::shared_ptr<accident> planned)
      : inner_(std::move(inner)), what_(std::move(planned)) {}

  [[nodiscard]] int rank() const { return inner_.rank(); }
  [[nodiscard]] int size() const { return inner_.size(); }
  [[nodiscard]] int world_rank(int rank) const { return inner_.world_rank(rank); }
  [[nodiscard]] std::string_view name() const { return inner_.name(); }
  void abort(std::string const& reason) { inner_.abort(reason); }

  parallel::request submit(stream& s, parallel::operation const& op) {
    if (what_ == nullptr || what_->compute == nullptr) return inner_.submit(s, op);
    bool const happens_now = what_->calls++ == what_->at;
    s.enqueue([happens_now, token = std::make_unique<token>(what_->under_way)] {
      if (happens_now) std::this_thread::sleep_for(200ms);
    });
    auto out = inner_.submit(s, op);
    if (happens_now)
      what_->compute->enqueue([after = what_->after] {
        std::this_thread::sleep_for(after);
        throw parallel::error("the machine is on fire");
      });
    return out;
  }
  [[nodiscard]] parallel::signature_exchange open_exchange(
      stream const* exchange_stream = nullptr) {
    return inner_.open_exchange(exchange_stream);
  }
  [[nodiscard]] unlucky split(parallel::coloring const& colors, std::string name = {}) {
    return {inner_.split(colors, std::move(name)), what_};
  }

 private:
  parallel::threads::communicator inner_;
  std::shared_ptr<accident> what_;
};

/// Runs a step on every rank, of which the last has the accident; checks what each is told. Who is
/// told nothing waits for a moment, not for ever.
void check_accident(test::layout const& run_layout, std::uint64_t at,
                    std::chrono::milliseconds after) {
  int const ranks = run_layout.shape().ranks();
  std::vector<std::string> messages(static_cast<std::size_t>(ranks));
  parallel::threads::run(
      ranks,
      [&](parallel::threads::communicator& comm) {
        int const own_rank = comm.rank();
        auto const planned = std::make_shared<accident>();
        planned->at = at;
        planned->after = after;
        test::ring_rank<> one(parallel::any_communicator(unlucky(
                                  std::move(comm), own_rank == ranks - 1 ? planned : nullptr)),
                              run_layout);
        one.world().barrier(one.compute()).wait();  // all ranks are made, and begin their steps
        planned->compute = &one.compute();
        try {
          (void)one.step(0);
        } catch (parallel::error const& thrown) {
          messages[static_cast<std::size_t>(own_rank)] = thrown.what();
        }
        CHECK(planned->under_way == 0);
      },
      {.deadline = 5s});
  for (int rank = 0; rank + 1 < ranks; ++rank)
    CHECK(messages[static_cast<std::size_t>(rank)] ==
          parallel::concat("rank ", ranks - 1, " failed: the machine is on fire"));
  CHECK(messages.back() == "the machine is on fire");
}

TEST_CASE("an exception in a step leaves no exchange behind and tells all ranks why") {
  test::ring_options const ring{.attention = {.heads = 4}};
  test::ring_sizes const sizes{.width = 4, .vocabulary = 16, .length = 8};
  test::layout const alone{.microbatch = 3, .model = ring, .sizes = sizes};
  std::vector<test::layout> layouts(5, alone);
  layouts[0].tensor = 2;
  layouts[1].context = 2;
  layouts[2].pipeline = 2;
  layouts[3].ranks = 2;
  layouts[3].level = test::zero::level::parameters;
  layouts[4].ranks = layouts[4].pipeline = layouts[4].tensor = 2;
  layouts[4].level = test::zero::level::gradients;
  for (std::size_t l = 0; l < layouts.size(); ++l)
    for (std::uint64_t const at : {0U, 3U, 6U})
      for (auto const after : {0ms, 20ms}) {
        CAPTURE(l);
        CAPTURE(at);
        CAPTURE(after.count());
        check_accident(layouts[l], at, after);
      }
}

}  // namespace attempt_test
