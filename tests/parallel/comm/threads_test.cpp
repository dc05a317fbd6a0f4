#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/core/error.hpp>
#include <parallel/support/files.hpp>

#include "parallel/comm/suite.hpp"

namespace threads_test {

using namespace parallel;
using namespace std::chrono_literals;
using test::comm_suite::check_all;
using test::comm_suite::message_of;

/// The message of the exception that each rank's program threw.
template <class Program>
std::vector<std::string> messages_of(int ranks, Program program,
                                     threads::world_options options = {}) {
  std::vector<std::string> out(static_cast<std::size_t>(ranks));
  threads::run(
      ranks,
      [&](threads::communicator& comm) {
        out[static_cast<std::size_t>(comm.rank())] = message_of([&] { program(comm); });
      },
      options);
  return out;
}

using test::contains;

inline std::string line(unsigned number) { return "threads_test.cpp:" + std::to_string(number); }

}  // namespace threads_test

TEST_CASE("single: a single rank passes the conformance checks of communicators") {
  parallel::single alone;
  CHECK_NOTHROW(test::comm_suite::check_all(alone));
}

TEST_CASE("threads: reductions in rank order have the exact bits for every number of ranks") {
  using namespace threads_test;
  for (int const n : {1, 2, 3, 4, 5, 7, 8}) {
    CAPTURE(n);
    CHECK_NOTHROW(threads::run(n, [](auto& comm) { check_all(comm); }));
  }
}

TEST_CASE("threads: two worlds of the same threads work side by side in any interleaving") {
  using namespace threads_test;
  constexpr int ranks = 4;
  auto const second_world = std::make_shared<threads::world>(ranks);
  CHECK_NOTHROW(threads::run(ranks, [&](threads::communicator& first) {
    threads::communicator second_communicator(second_world, first.rank());
    host::stream first_stream;
    host::stream second_stream;
    std::vector<std::uint64_t> x(1013);
    std::vector<std::uint64_t> y(517);
    for (int step = 0; step < 50; ++step) {
      auto const own_rank = static_cast<std::uint64_t>(first.rank());
      std::fill(x.begin(), x.end(), own_rank + 1);
      std::fill(y.begin(), y.end(), own_rank * own_rank);
      auto reduce = [&] { return first.all_reduce(first_stream, std::span(x), reduction::sum); };
      auto maximum = [&] {
        return second_communicator.all_reduce(second_stream, std::span(y), reduction::max);
      };
      if ((step + first.rank()) % 2 == 0) {  // ranks issue in different orders
        auto a = reduce();
        auto b = maximum();
        a.wait();
        b.wait();
      } else {
        auto b = maximum();
        auto a = reduce();
        b.wait();
        a.wait();
      }
      require(x.front() == 10 && x.back() == 10, "sum is wrong in step ", step);
      require(y.front() == 9 && y.back() == 9, "maximum is wrong in step ", step);
    }
  }));
}

TEST_CASE("threads: one communicator may be used on several streams") {
  using namespace threads_test;
  CHECK_NOTHROW(threads::run(3, [&](threads::communicator& comm) {
    host::stream streams[2];
    std::vector<std::vector<std::int32_t>> x(20, std::vector<std::int32_t>(100));
    std::vector<request> pending;
    for (std::size_t call = 0; call < x.size(); ++call) {
      std::fill(x[call].begin(), x[call].end(),
                static_cast<std::int32_t>(call) * (comm.rank() + 1));
      pending.push_back(comm.all_reduce(streams[call % 2], std::span(x[call]), reduction::sum));
    }
    for (auto& request : pending) request.wait();
    for (std::size_t call = 0; call < x.size(); ++call)
      require(x[call][99] == static_cast<std::int32_t>(6 * call), "call ", call, " is wrong");
  }));
}

TEST_CASE("threads: a NaN on any rank survives maximum and minimum") {
  using namespace threads_test;
  CHECK_NOTHROW(threads::run(3, [&](threads::communicator& comm) {
    host::stream s;
    for (int nan_rank = 0; nan_rank < 3; ++nan_rank)
      for (auto const op : {reduction::max, reduction::min}) {
        std::vector<float> x(1, comm.rank() == nan_rank ? std::nanf("") : 1.0F);
        comm.all_reduce(s, std::span(x), op).wait();
        require(x[0] != x[0], "the NaN of rank ", nan_rank, " was lost");
      }
  }));
}

TEST_CASE("threads: ranks that reduce different counts all learn the ranks and their call sites") {
  using namespace threads_test;
  unsigned call_line = 0;
  auto const messages = messages_of(3, [&](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(comm.rank() == 1 ? 3 : 5);
    if (comm.rank() == 0) call_line = parallel::call_site::current().line() + 1;
    comm.all_reduce(s, std::span(x), reduction::sum).wait();
  });
  for (auto const& message : messages) {
    CHECK(message ==
          "ranks disagree in count (call 0 of this communicator): ranks 0, 2: "
          "all_reduce(sum) of 5 f32 at " +
              line(call_line) + "; rank 1: all_reduce(sum) of 3 f32 at " + line(call_line) +
              "; all ranks must make the same calls in the same order");
  }
}

TEST_CASE("threads: ranks that call different operations learn both call sites") {
  using namespace threads_test;
  unsigned reduce_line = 0;
  unsigned gather_line = 0;
  auto const messages = messages_of(2, [&](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(4);
    std::vector<double> y(8);
    comm.barrier(s).wait();
    if (comm.rank() == 0) {
      reduce_line = parallel::call_site::current().line() + 1;
      comm.all_reduce(s, std::span(x), reduction::max).wait();
    } else {
      gather_line = parallel::call_site::current().line() + 1;
      comm.all_gather(s, std::span(y), std::span(y).subspan(4)).wait();
    }
  });
  for (auto const& message : messages) {
    CHECK(contains(message, "operation, element type"));
    CHECK(contains(message, "call 1 of"));
    CHECK(contains(message, "rank 0: all_reduce(max) of 4 f32 at " + line(reduce_line)));
    CHECK(contains(message, "rank 1: all_gather of 4 f64 at " + line(gather_line)));
  }
}

TEST_CASE("threads: different roots and reductions are refused") {
  using namespace threads_test;
  auto const roots = messages_of(2, [](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(4);
    comm.broadcast(s, std::span(x), comm.rank()).wait();
  });
  CHECK(contains(roots[0], "disagree in root"));
  CHECK(contains(roots[1], "broadcast of 4 f32 from root 1"));
  auto const reductions = messages_of(2, [](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(4);
    comm.all_reduce(s, std::span(x), comm.rank() == 0 ? reduction::sum : reduction::min).wait();
  });
  CHECK(contains(reductions[1], "disagree in reduction"));
}

TEST_CASE("threads: a missing rank is named at the deadline with the call in which it waits") {
  using namespace threads_test;
  unsigned reduce_line = 0;
  unsigned recv_line = 0;
  auto const messages =
      messages_of(3,
                  [&](threads::communicator& comm) {
                    host::stream s;
                    std::vector<float> x(4);
                    if (comm.rank() == 2) {
                      std::this_thread::sleep_for(200ms);  // so that another gives up first
                      recv_line = parallel::call_site::current().line() + 1;
                      auto const pending = comm.recv(s, std::span(x), 1, 7);
                      s.synchronize();  // the communicator does not see this wait
                    } else {
                      if (comm.rank() == 0) reduce_line = parallel::call_site::current().line() + 1;
                      comm.all_reduce(s, std::span(x), reduction::sum).wait();
                    }
                  },
                  {.deadline = 400ms});
  for (auto const& message : messages) {  // one rank times out and informs the others
    CHECK(contains(message, "waited 0.4 s for rank 2; rank "));
    CHECK(contains(message, " waits in all_reduce(sum) of 4 f32 at " + line(reduce_line)));
    CHECK(contains(message,
                   "rank 2 waits in recv of 4 f32 from rank 1, tag 7 at " + line(recv_line)));
  }
}

TEST_CASE("threads: a rank that never comes is named") {
  using namespace threads_test;
  auto const messages = messages_of(2,
                                    [&](threads::communicator& comm) {
                                      host::stream s;
                                      if (comm.rank() == 0) comm.barrier(s).wait();
                                      if (comm.rank() == 1) std::this_thread::sleep_for(200ms);
                                    },
                                    {.deadline = 50ms});
  CHECK(contains(messages[0], "barrier at threads_test.cpp:"));
  CHECK(contains(messages[0], "rank 0 waited 0.05 s for rank 1; rank 1 is in no collective"));
}

TEST_CASE(
    "threads: a process that was stopped for longer than its deadline continues without an error") {
  using namespace threads_test;
  auto const messages =
      messages_of(2,
                  [](threads::communicator& comm) {
                    host::stream s;
                    float value = 1;
                    if (comm.rank() == 1) {
                      ::pid_t const stopped = ::getpid();
                      ::pid_t const waker = ::fork();
                      if (waker == 0) {  // makes system calls only: other threads held locks
                        ::usleep(100'000);
                        ::kill(stopped, SIGSTOP);
                        ::usleep(1'500'000);
                        ::kill(stopped, SIGCONT);
                        ::_exit(0);
                      }
                      ::waitpid(waker, nullptr, 0);
                      std::this_thread::sleep_for(100ms);  // after all threads run again
                    }
                    comm.all_reduce(s, std::span(&value, 1), reduction::sum).wait();
                    require(value == 2, "another sum");
                  },
                  {.deadline = 1s});
  for (auto const& message : messages) CHECK(message == "nothing was thrown");
}

TEST_CASE("threads: a rank that waits for a returned rank gets an error at once") {
  using namespace threads_test;
  for (auto const delay : {0ms, 100ms}) {  // rank 2 returns after the others have come, or before
    unsigned call_line = 0;
    auto const messages = messages_of(3, [&](threads::communicator& comm) {
      host::stream s;
      std::vector<float> x(4);
      if (comm.rank() == 2) return std::this_thread::sleep_for(100ms - delay);
      std::this_thread::sleep_for(delay);
      if (comm.rank() == 0) call_line = parallel::call_site::current().line() + 1;
      comm.all_reduce(s, std::span(x), reduction::sum).wait();
    });
    for (std::size_t const rank : {0U, 1U}) {
      CAPTURE(messages[rank]);
      CHECK(messages[rank].starts_with("rank 2 has returned from its program, but rank "));
      CHECK(contains(messages[rank], " waits for it in all_reduce(sum) of 4 f32 at " +
                                         line(call_line) +
                                         " (call 0); all ranks must make the same calls"));
    }
  }
}

TEST_CASE("threads: when a rank throws, the others stop and the run reports the cause") {
  using namespace threads_test;
  std::vector<std::string> messages(3);
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    if (comm.rank() == 1) throw std::out_of_range("the cause");
    try {
      comm.barrier(s).wait();
    } catch (aborted const& stopped) {
      messages[static_cast<std::size_t>(comm.rank())] = stopped.what();
      throw;
    }
  };
  CHECK_THROWS_AS(threads::run(3, program), std::out_of_range);
  CHECK(messages[0] == "rank 1 failed: the cause");
  CHECK(messages[2] == "rank 1 failed: the cause");
}

TEST_CASE(
    "threads: an exception that destroys a pending request aborts instead of waiting for the "
    "deadline") {
  using namespace threads_test;
  std::string message;
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(4);
    if (comm.rank() == 0) {
      auto const pending = comm.all_reduce(s, std::span(x), reduction::sum);
      throw std::runtime_error("after the call");
    }
    message = message_of([&] { comm.recv(s, std::span(x), 0).wait(); });
  };
  CHECK_THROWS_WITH(threads::run(2, program), "after the call");
  CHECK(message == "rank 0 failed: after the call");
}

TEST_CASE("threads: a rank that abandons a call and gives no reason is named") {
  using namespace threads_test;
  std::string message;
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(4);
    if (comm.rank() == 1) {
      message = message_of([&] { comm.recv(s, std::span(x), 0).wait(); });
      return;
    }
    auto const own_message = message_of([&] {
      auto const pending = comm.all_reduce(s, std::span(x), reduction::sum);
      throw error("kept to itself");
    });
    CHECK(own_message == "kept to itself");
    std::this_thread::sleep_for(300ms);  // continues to compute without an abort
  };
  threads::run(2, program, {.grace = 100ms});
  CHECK(contains(message, "an exception left rank 0 before its all_reduce(sum) of 4 f32 at "));
}

TEST_CASE(
    "threads: a rank may return after it abandoned a collective that no other rank has entered") {
  using namespace threads_test;
  std::atomic<bool> has_given_up = false;
  std::string message;
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(4);
    if (comm.rank() == 1) {
      while (!has_given_up) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(100ms);  // rank 0 has returned by now
      message = message_of([&] { comm.all_reduce(s, std::span(x), reduction::sum).wait(); });
      return;
    }
    auto const own_message = message_of([&] {
      auto const pending = comm.all_reduce(s, std::span(x), reduction::sum);
      std::this_thread::sleep_for(100ms);  // its stream waits in the collective by now
      throw error("kept to itself");
    });
    CHECK(own_message == "kept to itself");
    has_given_up = true;
  };
  threads::run(2, program);
  CAPTURE(message);
  CHECK(message.starts_with(
      "rank 0 has returned from its program, but rank 1 waits for it in all_reduce(sum) of 4 f32"));
}

TEST_CASE("threads: a call that a failed stream skips counts as one that never comes") {
  using namespace threads_test;
  for (bool const is_exchange : {false, true})
    for (bool const returns_late : {false, true}) {  // whether rank 1 waits when rank 0 returns
      CAPTURE(is_exchange);
      CAPTURE(returns_late);
      std::string message;
      auto const program = [&](threads::communicator& comm) {
        host::stream s;
        auto const call = [&] {
          if (!is_exchange) return comm.barrier(s).wait();
          s.enqueue([exchange = comm.open_exchange(&s)] { (void)exchange({.count = 1}); });
          s.synchronize();
        };
        if (comm.rank() == 0) {
          (void)message_of([&] {
            s.enqueue([] {
              std::this_thread::sleep_for(50ms);  // the call is queued by then
              throw error("kept to itself");
            });
            call();
          });
          if (returns_late) std::this_thread::sleep_for(200ms);
          return;
        }
        if (!returns_late) std::this_thread::sleep_for(200ms);
        message = message_of(call);
      };
      threads::run(2, program, {.deadline = 20s});
      CAPTURE(message);
      CHECK(
          message.starts_with("rank 0 has returned from its program, but rank 1 waits for it in "));
    }
}

TEST_CASE("threads: the first cause is reported, not a later exception of another rank") {
  using namespace threads_test;
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    if (comm.rank() == 1) {
      comm.abort("the disk is full");
      std::this_thread::sleep_for(100ms);  // the others come first
      throw std::runtime_error("the disk is full");
    }
    auto const message = message_of([&] { comm.barrier(s).wait(); });
    throw std::runtime_error("while saving: " + message);  // no longer an `aborted`
  };
  CHECK_THROWS_WITH(threads::run(3, program), "the disk is full");
}

TEST_CASE("threads: a failure is reported although another rank does not stop") {
  using namespace threads_test;
  std::atomic<bool> stop = false;
  std::string report;
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    if (comm.rank() == 0) throw std::out_of_range("the cause");
    if (comm.rank() == 1) comm.barrier(s).wait();
    while (!stop) std::this_thread::sleep_for(1ms);  // makes no call that could fail
  };
  CHECK_THROWS_AS(threads::run(3, program,
                               {.grace = 100ms,
                                .when_stuck =
                                    [&](std::string const& sentence) {
                                      report = sentence;
                                      stop = true;
                                    }}),
                  std::out_of_range);
  CHECK(report ==
        "rank 0 failed: the cause; 0.1 s later these have not stopped: rank 2, which is in no "
        "collective");
}

namespace threads_test {

/// Copies as the CPU does, and is stuck at the end of an operation until `may_finish` is set.
struct stuck_mover final : parallel::data_mover {
  std::atomic<bool> may_finish = false;
  void copy(void* to, void const* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void combine(parallel::dtype, parallel::reduction, std::span<void* const>,
               std::span<void const* const>, std::size_t) override {}
  std::byte* staging(std::size_t) override { return nullptr; }
  void finish() override {
    while (!may_finish) std::this_thread::sleep_for(1ms);
  }
};

/// The messages of the ranks when rank 2 has come to a gather and is stuck in the middle of it.
std::vector<std::string> messages_while_stuck(threads::world_options const& options, bool aborts) {
  stuck_mover mover;
  std::vector<std::string> messages(3);
  std::vector<std::vector<float>> memory(
      3, std::vector<float>(3));  // lives until all ranks have stopped
  std::atomic<int> failed_count = 0;
  threads::run(
      3,
      [&](threads::communicator& comm) {
        auto const own_rank = static_cast<std::size_t>(comm.rank());
        host::stream s(host::stream_options{.mover = comm.rank() == 2 ? &mover : nullptr});
        auto& values = memory[own_rank];
        auto gather = comm.all_gather(s, std::span(values), std::span(values).subspan(own_rank, 1));
        if (comm.rank() == 0 && aborts) {
          std::this_thread::sleep_for(50ms);
          comm.abort("the disk is full");
        }
        messages[own_rank] = message_of([&] { gather.wait(); });
        if (comm.rank() != 2 && ++failed_count == 2) mover.may_finish = true;
      },
      options);
  return messages;
}

TEST_CASE("threads: a communicator that was moved from says so, whatever is called") {
  auto const refusal_of = [](auto const& call) {
    return messages_of(1, [&](threads::communicator& comm) {
      auto const moved_to = std::move(comm);
      call(comm);
    })[0];
  };
  std::vector<int> numbers(1);
  host::stream stream;
  for (auto const& message :
       {refusal_of([&](auto& comm) {
          comm.all_reduce(stream, std::span(numbers), reduction::sum).wait();
        }),
        refusal_of([](auto& comm) { static_cast<void>(comm.split(0)); }),
        refusal_of([](auto& comm) { comm.abort("why"); }),
        refusal_of([](auto& comm) { static_cast<void>(comm.open_exchange()); })})
    CHECK(
        test::contains(message, "a communicator is called after it was moved from; call the one"));
}

}  // namespace threads_test

TEST_CASE(
    "threads: a rank stuck inside an operation delays the others by deadline and grace at most") {
  using namespace threads_test;
  auto const deadline_messages = messages_while_stuck({.deadline = 200ms, .grace = 100ms}, false);
  for (std::size_t const rank : {0U, 1U}) {
    CAPTURE(deadline_messages[rank]);
    CHECK(contains(deadline_messages[rank], "all_gather of 1 f32 at threads_test.cpp:"));
    CHECK(contains(deadline_messages[rank],
                   " waited 0.2 s for rank 2 to finish its part, after all ranks had arrived"));
  }
  auto const abort_messages = messages_while_stuck({.deadline = 600s, .grace = 100ms}, true);
  for (std::size_t const rank : {0U, 1U}) {
    CAPTURE(abort_messages[rank]);
    CHECK(abort_messages[rank].starts_with("rank 0 failed: the disk is full; then all_gather"));
    CHECK(contains(abort_messages[rank], " waited 0.1 s for rank 2 to finish its part"));
  }
}

TEST_CASE("threads: an abort wakes every rank with its reason, and later calls fail at once") {
  using namespace threads_test;
  auto const messages = messages_of(3, [](threads::communicator& comm) {
    host::stream s;
    if (comm.rank() == 2) comm.abort("the disk is full");
    comm.barrier(s).wait();
  });
  for (auto const& message : messages) CHECK(message == "rank 2 failed: the disk is full");
}

TEST_CASE(
    "threads: abort and deadline reach ranks that wait in a subgroup, in messages and in "
    "all_to_all") {
  using namespace threads_test;
  CHECK_NOTHROW(threads::run(4, [](threads::communicator& comm) {
    test::comm_suite::check_abort_polling(std::move(comm));
  }));
  for (auto const wait_kind : test::comm_suite::all_waits) {
    CAPTURE(static_cast<int>(wait_kind));
    CHECK_NOTHROW(threads::run(4, [&](threads::communicator& comm) {
      test::comm_suite::check_abort(std::move(comm), wait_kind);
    }));
    CHECK_NOTHROW(threads::run(4, [&](threads::communicator& comm) {
      test::comm_suite::check_reason(std::move(comm), wait_kind);
    }));
    CHECK_NOTHROW(test::run_with_deadline(4, 100ms, [&](threads::communicator& comm) {
      test::comm_suite::check_deadline(std::move(comm), wait_kind, "0.1");
    }));
  }
}

TEST_CASE("threads: sender and receiver must agree in type and count") {
  using namespace threads_test;
  auto const messages = messages_of(3, [](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(comm.rank() == 0 ? 4 : 6);
    if (comm.rank() == 0) comm.send(s, std::span(x), 2, 1).wait();
    if (comm.rank() == 2) comm.recv(s, std::span(x), 0, 1).wait();
    if (comm.rank() == 1) comm.barrier(s).wait();  // woken too
  });
  for (auto const& message : messages) {
    CHECK(contains(message,
                   "sender and receiver disagree in count: rank 0: send of 4 f32 to rank "
                   "2, tag 1 at "));
    CHECK(contains(message, "; rank 2: recv of 6 f32 from rank 0, tag 1 at "));
  }
}

TEST_CASE("threads: wrong arguments are refused by the call itself") {
  using namespace threads_test;
  threads::run(2, [](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(7);
    std::vector<float> y(2);
    auto const message_from = [&](auto f) { return message_of(f); };
    auto const scatter =
        message_from([&] { (void)comm.reduce_scatter(s, std::span(y), x, reduction::sum); });
    require(contains(scatter, "the input has 7 elements, expected 2 shards of 2"), scatter);
    auto const gather = message_from([&] { (void)comm.all_gather(s, std::span(x), y); });
    require(contains(gather, "the output has 7 elements, expected 2 shards of 2"), gather);
    auto const overlap = message_from(
        [&] { (void)comm.all_gather(s, std::span(x).first(4), std::span(x).subspan(1, 2)); });
    require(contains(overlap, "is not this rank's own part"), overlap);
    auto const uneven =
        message_from([&] { (void)comm.all_to_all(s, std::span(x), std::vector<float>(7)); });
    require(contains(uneven,
                     "the input has 7 elements and the output 7, expected the same "
                     "multiple of 2"),
            uneven);
    auto const shorter =
        message_from([&] { (void)comm.all_to_all(s, std::span(y), std::span(x).first(4)); });
    require(contains(shorter, "the input has 4 elements and the output 2"), shorter);
    auto const transposed = message_from(
        [&] { (void)comm.all_to_all(s, std::span(x).first(4), std::span(x).last(4)); });
    require(contains(transposed, "the output overlaps the input"), transposed);
    auto const root = message_from([&] { (void)comm.broadcast(s, std::span(x), 2); });
    require(contains(root, "root 2 is not a rank of this communicator of 2"), root);
    auto const self = message_from([&] { (void)comm.send(s, std::span(x), comm.rank()); });
    require(contains(self, "is to itself"), self);
    auto const tag = message_from([&] { (void)comm.recv(s, std::span(x), 1 - comm.rank(), -1); });
    require(contains(tag, "tag -1 is not in 0 ... 16383"), tag);
    comm.barrier(s).wait();  // nothing was lost
  });
  CHECK(contains(message_of([] { threads::world(0); }), "must be at least 1"));
  auto const world = std::make_shared<threads::world>(2);
  threads::communicator const first(world, 1);
  CHECK(contains(message_of([&] { threads::communicator(world, 1); }),
                 "rank 1 of this world already has a communicator"));
  CHECK(contains(message_of([&] { threads::communicator(world, 2); }), "not in a world of 2"));
}

TEST_CASE("threads: errors in a subgroup name ranks by their world numbers and stop the world") {
  using namespace threads_test;
  auto const messages =
      messages_of(5,
                  [](threads::communicator& comm) {
                    auto group = comm.split(comm.rank() % 2, "tensor");  // 0, 2, 4 and 1, 3
                    host::stream s;
                    std::vector<float> x(comm.rank() == 3 ? 4 : 6);
                    if (comm.rank() % 2 == 1)
                      group.all_reduce(s, std::span(x), reduction::sum).wait();
                    else
                      comm.barrier(s).wait();  // the odd ranks never come
                  },
                  {.deadline = 20s});
  for (auto const& message : messages) {
    CAPTURE(message);
    CHECK(contains(message, "ranks disagree in count"));
    CHECK(contains(message, "rank 1: all_reduce(sum) of 6 f32 over tensor at "));
    CHECK(contains(message, "rank 3: all_reduce(sum) of 4 f32"));
  }
}

TEST_CASE("threads: a rank missing from a subgroup's call is named by its world number") {
  using namespace threads_test;
  auto const messages = messages_of(4,
                                    [](threads::communicator& comm) {
                                      auto group = comm.split(comm.rank() / 2);
                                      host::stream s;
                                      std::vector<float> x(3);
                                      if (comm.rank() == 2) group.recv(s, std::span(x), 1).wait();
                                      if (comm.rank() == 3) group.barrier(s).wait();
                                    },
                                    {.deadline = 300ms});
  CHECK(contains(messages[2] + messages[3], "rank 3"));
  CHECK(contains(messages[2], "of 3 f32 from rank 3, tag 0"));
}

TEST_CASE("threads: a negative color is refused") {
  using namespace threads_test;
  CHECK(contains(messages_of(1, [](auto& comm) { (void)comm.split(-2); })[0],
                 "split: the color must not be negative, but is -2"));
}
