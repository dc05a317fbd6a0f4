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
#include <parallel/core/call_site.hpp>

#include "parallel/comm/suite.hpp"

namespace threads_test {

using namespace parallel;
using namespace std::chrono_literals;
using test::comm_suite::check_all;
using test::comm_suite::message_of;

/// What each rank's program threw, as text.
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

inline bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

inline std::string line(unsigned number) { return "threads_test.cpp:" + std::to_string(number); }

}  // namespace threads_test

TEST_CASE("a single rank passes the suite of all communicators") {
  parallel::single alone;
  CHECK_NOTHROW(test::comm_suite::check_all(alone));
}

TEST_CASE("threads reduce in rank order to the exact bits for every number of ranks") {
  using namespace threads_test;
  for (int const n : {1, 2, 3, 4, 5, 7, 8}) {
    CAPTURE(n);
    CHECK_NOTHROW(threads::run(n, [](auto& comm) { check_all(comm); }));
  }
}

TEST_CASE("two worlds of the same threads work side by side in any interleaving") {
  using namespace threads_test;
  constexpr int ranks = 4;
  auto const second = std::make_shared<threads::world>(ranks);
  CHECK_NOTHROW(threads::run(ranks, [&](threads::communicator& first) {
    threads::communicator other(second, first.rank());
    host::stream one;
    host::stream two;
    std::vector<std::uint64_t> x(1013);
    std::vector<std::uint64_t> y(517);
    for (int step = 0; step < 50; ++step) {
      auto const me = static_cast<std::uint64_t>(first.rank());
      std::fill(x.begin(), x.end(), me + 1);
      std::fill(y.begin(), y.end(), me * me);
      auto reduce = [&] { return first.all_reduce(one, std::span(x), reduction::sum); };
      auto sum = [&] { return other.all_reduce(two, std::span(y), reduction::max); };
      if ((step + first.rank()) % 2 == 0) {  // ranks issue in different orders
        auto a = reduce();
        auto b = sum();
        a.wait();
        b.wait();
      } else {
        auto b = sum();
        auto a = reduce();
        b.wait();
        a.wait();
      }
      require(x.front() == 10 && x.back() == 10, "sum is wrong in step ", step);
      require(y.front() == 9 && y.back() == 9, "maximum is wrong in step ", step);
    }
  }));
}

TEST_CASE("one communicator may be used on several streams") {
  using namespace threads_test;
  CHECK_NOTHROW(threads::run(3, [&](threads::communicator& comm) {
    host::stream streams[2];
    std::vector<std::vector<std::int32_t>> x(20, std::vector<std::int32_t>(100));
    std::vector<request> pending;
    for (std::size_t k = 0; k < x.size(); ++k) {
      std::fill(x[k].begin(), x[k].end(), static_cast<std::int32_t>(k) * (comm.rank() + 1));
      pending.push_back(comm.all_reduce(streams[k % 2], std::span(x[k]), reduction::sum));
    }
    for (auto& one : pending) one.wait();
    for (std::size_t k = 0; k < x.size(); ++k)
      require(x[k][99] == static_cast<std::int32_t>(6 * k), "call ", k, " is wrong");
  }));
}

TEST_CASE("a NaN on any rank survives maximum and minimum") {
  using namespace threads_test;
  CHECK_NOTHROW(threads::run(3, [&](threads::communicator& comm) {
    host::stream s;
    for (int place = 0; place < 3; ++place)
      for (auto const how : {reduction::max, reduction::min}) {
        std::vector<float> x(1, comm.rank() == place ? std::nanf("") : 1.0F);
        comm.all_reduce(s, std::span(x), how).wait();
        require(x[0] != x[0], "the NaN of rank ", place, " was lost");
      }
  }));
}

TEST_CASE("ranks that reduce different counts all learn which ranks and from where") {
  using namespace threads_test;
  unsigned here = 0;
  auto const found = messages_of(3, [&](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(comm.rank() == 1 ? 3 : 5);
    if (comm.rank() == 0) here = parallel::call_site::current().line() + 1;
    comm.all_reduce(s, std::span(x), reduction::sum).wait();
  });
  for (auto const& message : found) {
    CHECK(message ==
          "ranks disagree in count (call 0 of this communicator): ranks 0, 2: "
          "all_reduce(sum) of 5 f32 at " +
              line(here) + "; rank 1: all_reduce(sum) of 3 f32 at " + line(here) +
              "; all ranks must make the same calls in the same order");
  }
}

TEST_CASE("ranks that call different operations are told both call sites") {
  using namespace threads_test;
  unsigned reduces = 0;
  unsigned gathers = 0;
  auto const found = messages_of(2, [&](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(4);
    std::vector<double> y(8);
    comm.barrier(s).wait();
    if (comm.rank() == 0) {
      reduces = parallel::call_site::current().line() + 1;
      comm.all_reduce(s, std::span(x), reduction::max).wait();
    } else {
      gathers = parallel::call_site::current().line() + 1;
      comm.all_gather(s, std::span(y), std::span(y).subspan(4)).wait();
    }
  });
  for (auto const& message : found) {
    CHECK(contains(message, "operation, element type"));
    CHECK(contains(message, "call 1 of"));
    CHECK(contains(message, "rank 0: all_reduce(max) of 4 f32 at " + line(reduces)));
    CHECK(contains(message, "rank 1: all_gather of 4 f64 at " + line(gathers)));
  }
}

TEST_CASE("different roots and reductions are refused") {
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

TEST_CASE("a missing rank is named at the deadline with the place where it waits") {
  using namespace threads_test;
  unsigned reduces = 0;
  unsigned receives = 0;
  auto const found =
      messages_of(3,
                  [&](threads::communicator& comm) {
                    host::stream s;
                    std::vector<float> x(4);
                    if (comm.rank() == 2) {
                      std::this_thread::sleep_for(200ms);  // so that another gives up first
                      receives = parallel::call_site::current().line() + 1;
                      auto const pending = comm.recv(s, std::span(x), 1, 7);
                      s.synchronize();  // a wait that the communicator does not see
                    } else {
                      if (comm.rank() == 0) reduces = parallel::call_site::current().line() + 1;
                      comm.all_reduce(s, std::span(x), reduction::sum).wait();
                    }
                  },
                  {.deadline = 400ms});
  for (auto const& message : found) {  // one rank gives up and tells the others
    CHECK(contains(message, "waited 0.4 s for rank 2; rank "));
    CHECK(contains(message, " waits in all_reduce(sum) of 4 f32 at " + line(reduces)));
    CHECK(
        contains(message, "rank 2 waits in recv of 4 f32 from rank 1, tag 7 at " + line(receives)));
  }
}

TEST_CASE("a rank that never comes is named") {
  using namespace threads_test;
  auto const found = messages_of(2,
                                 [&](threads::communicator& comm) {
                                   host::stream s;
                                   if (comm.rank() == 0) comm.barrier(s).wait();
                                   if (comm.rank() == 1) std::this_thread::sleep_for(200ms);
                                 },
                                 {.deadline = 50ms});
  CHECK(contains(found[0], "barrier at threads_test.cpp:"));
  CHECK(contains(found[0], "rank 0 waited 0.05 s for rank 1; rank 1 is in no collective"));
}

TEST_CASE("a process that is stopped for longer than its deadline goes on as if nothing had been") {
  using namespace threads_test;
  auto const messages =
      messages_of(2,
                  [](threads::communicator& comm) {
                    host::stream s;
                    float one = 1;
                    if (comm.rank() == 1) {
                      ::pid_t const stopped = ::getpid();
                      ::pid_t const waker = ::fork();
                      if (waker == 0) {  // calls nothing but the system: other threads held locks
                        ::usleep(100'000);
                        ::kill(stopped, SIGSTOP);
                        ::usleep(1'500'000);
                        ::kill(stopped, SIGCONT);
                        ::_exit(0);
                      }
                      ::waitpid(waker, nullptr, 0);
                      std::this_thread::sleep_for(100ms);  // after all have gone on
                    }
                    comm.all_reduce(s, std::span(&one, 1), reduction::sum).wait();
                    require(one == 2, "another sum");
                  },
                  {.deadline = 1s});
  for (auto const& message : messages) CHECK(message == "nothing was thrown");
}

TEST_CASE("who waits for a rank that has returned is told at once") {
  using namespace threads_test;
  for (auto const early : {0ms, 100ms}) {  // returns after the others have come, or before
    unsigned here = 0;
    auto const found = messages_of(3, [&](threads::communicator& comm) {
      host::stream s;
      std::vector<float> x(4);
      if (comm.rank() == 2) return std::this_thread::sleep_for(100ms - early);
      std::this_thread::sleep_for(early);
      if (comm.rank() == 0) here = parallel::call_site::current().line() + 1;
      comm.all_reduce(s, std::span(x), reduction::sum).wait();
    });
    for (std::size_t const rank : {0U, 1U}) {
      CAPTURE(found[rank]);
      CHECK(found[rank].starts_with("rank 2 has returned from its program, but rank "));
      CHECK(contains(found[rank], " waits for it in all_reduce(sum) of 4 f32 at " + line(here) +
                                      " (call 0); all ranks must make the same calls"));
    }
  }
}

TEST_CASE("when a rank throws, the others stop and the program reports the cause") {
  using namespace threads_test;
  std::vector<std::string> found(3);
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    if (comm.rank() == 1) throw std::out_of_range("the cause");
    try {
      comm.barrier(s).wait();
    } catch (aborted const& stopped) {
      found[static_cast<std::size_t>(comm.rank())] = stopped.what();
      throw;
    }
  };
  CHECK_THROWS_AS(threads::run(3, program), std::out_of_range);
  CHECK(found[0] == "rank 1 failed: the cause");
  CHECK(found[2] == "rank 1 failed: the cause");
}

TEST_CASE("an exception that leaves a request behind aborts instead of waiting for the deadline") {
  using namespace threads_test;
  std::string found;
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(4);
    if (comm.rank() == 0) {
      auto const pending = comm.all_reduce(s, std::span(x), reduction::sum);
      throw std::runtime_error("after the call");
    }
    found = message_of([&] { comm.recv(s, std::span(x), 0).wait(); });
  };
  CHECK_THROWS_WITH(threads::run(2, program), "after the call");
  CHECK(found == "rank 0 failed: after the call");
}

TEST_CASE("a rank that gives up and does not say why is named all the same") {
  using namespace threads_test;
  std::string found;
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(4);
    if (comm.rank() == 1) {
      found = message_of([&] { comm.recv(s, std::span(x), 0).wait(); });
      return;
    }
    auto const own = message_of([&] {
      auto const pending = comm.all_reduce(s, std::span(x), reduction::sum);
      throw error("kept to itself");
    });
    CHECK(own == "kept to itself");
    std::this_thread::sleep_for(300ms);  // it computes on, and tells nobody
  };
  threads::run(2, program, {.grace = 100ms});
  CHECK(contains(found, "an exception left rank 0 before its all_reduce(sum) of 4 f32 at "));
}

TEST_CASE("a rank that gives up a collective that nobody else has come to may return") {
  using namespace threads_test;
  std::atomic<bool> given_up = false;
  std::string found;
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(4);
    if (comm.rank() == 1) {
      while (!given_up) std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(100ms);  // rank 0 has returned by now
      found = message_of([&] { comm.all_reduce(s, std::span(x), reduction::sum).wait(); });
      return;
    }
    auto const own = message_of([&] {
      auto const pending = comm.all_reduce(s, std::span(x), reduction::sum);
      std::this_thread::sleep_for(100ms);  // its stream waits in the collective by now
      throw error("kept to itself");
    });
    CHECK(own == "kept to itself");
    given_up = true;
  };
  threads::run(2, program);
  CAPTURE(found);
  CHECK(found.starts_with(
      "rank 0 has returned from its program, but rank 1 waits for it in all_reduce(sum) of 4 f32"));
}

TEST_CASE("a call that a failed stream leaves out is one that never comes") {
  using namespace threads_test;
  for (bool const agrees : {false, true})
    for (bool const late : {false, true}) {  // whether the other rank waits when this one returns
      CAPTURE(agrees);
      CAPTURE(late);
      std::string found;
      auto const program = [&](threads::communicator& comm) {
        host::stream s;
        auto const call = [&] {
          if (!agrees) return comm.barrier(s).wait();
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
          if (late) std::this_thread::sleep_for(200ms);
          return;
        }
        if (!late) std::this_thread::sleep_for(200ms);
        found = message_of(call);
      };
      threads::run(2, program, {.deadline = 20s});
      CAPTURE(found);
      CHECK(found.starts_with("rank 0 has returned from its program, but rank 1 waits for it in "));
    }
}

TEST_CASE("the first cause is reported, not what another rank makes of hearing it") {
  using namespace threads_test;
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    if (comm.rank() == 1) {
      comm.abort("the disk is full");
      std::this_thread::sleep_for(100ms);  // the others come first
      throw std::runtime_error("the disk is full");
    }
    auto const heard = message_of([&] { comm.barrier(s).wait(); });
    throw std::runtime_error("while saving: " + heard);  // no `aborted` any more
  };
  CHECK_THROWS_WITH(threads::run(3, program), "the disk is full");
}

TEST_CASE("a rank that does not stop after a failure hides nothing") {
  using namespace threads_test;
  std::atomic<bool> stop = false;
  std::string told;
  auto const program = [&](threads::communicator& comm) {
    host::stream s;
    if (comm.rank() == 0) throw std::out_of_range("the cause");
    if (comm.rank() == 1) comm.barrier(s).wait();
    while (!stop) std::this_thread::sleep_for(1ms);  // hears nothing
  };
  CHECK_THROWS_AS(threads::run(3, program,
                               {.grace = 100ms,
                                .when_stuck =
                                    [&](std::string const& sentence) {
                                      told = sentence;
                                      stop = true;
                                    }}),
                  std::out_of_range);
  CHECK(told ==
        "rank 0 failed: the cause; 0.1 s later these have not stopped: rank 2, which is in no "
        "collective");
}

namespace threads_test {

/// Copies as the CPU does, and is stuck at the end of an operation until `go_on`.
struct stuck_mover final : parallel::data_mover {
  std::atomic<bool> go_on = false;
  void copy(void* to, void const* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void combine(parallel::dtype, parallel::reduction, std::span<void* const>,
               std::span<void const* const>, std::size_t) override {}
  std::byte* staging(std::size_t) override { return nullptr; }
  void finish() override {
    while (!go_on) std::this_thread::sleep_for(1ms);
  }
};

/// What the others are told when rank 2 came to a gather and is stuck in the middle of it.
std::vector<std::string> told_inside(threads::world_options const& options, bool abort) {
  stuck_mover mover;
  std::vector<std::string> told(3);
  std::vector<std::vector<float>> memory(3, std::vector<float>(3));  // until all have stopped
  std::atomic<int> out = 0;
  threads::run(
      3,
      [&](threads::communicator& comm) {
        auto const me = static_cast<std::size_t>(comm.rank());
        host::stream s(host::stream_options{.mover = comm.rank() == 2 ? &mover : nullptr});
        auto& all = memory[me];
        auto gather = comm.all_gather(s, std::span(all), std::span(all).subspan(me, 1));
        if (comm.rank() == 0 && abort) {
          std::this_thread::sleep_for(50ms);
          comm.abort("the disk is full");
        }
        told[me] = message_of([&] { gather.wait(); });
        if (comm.rank() != 2 && ++out == 2) mover.go_on = true;
      },
      options);
  return told;
}

}  // namespace threads_test

TEST_CASE("a rank that is stuck inside an operation holds up nobody beyond deadline and grace") {
  using namespace threads_test;
  auto const late = told_inside({.deadline = 200ms, .grace = 100ms}, false);
  for (std::size_t const rank : {0U, 1U}) {
    CAPTURE(late[rank]);
    CHECK(contains(late[rank], "all_gather of 1 f32 at threads_test.cpp:"));
    CHECK(contains(late[rank], " waited 0.2 s for rank 2 to finish its part, after all had come"));
  }
  auto const stopped = told_inside({.deadline = 600s, .grace = 100ms}, true);
  for (std::size_t const rank : {0U, 1U}) {
    CAPTURE(stopped[rank]);
    CHECK(stopped[rank].starts_with("rank 0 failed: the disk is full; then all_gather"));
    CHECK(contains(stopped[rank], " waited 0.1 s for rank 2 to finish its part"));
  }
}

TEST_CASE("an abort wakes every rank with its reason, and later calls fail at once") {
  using namespace threads_test;
  auto const found = messages_of(3, [](threads::communicator& comm) {
    host::stream s;
    if (comm.rank() == 2) comm.abort("the disk is full");
    comm.barrier(s).wait();
  });
  for (auto const& message : found) CHECK(message == "rank 2 failed: the disk is full");
}

TEST_CASE("abort and deadline reach ranks that wait in a part, in messages and in all_to_all") {
  using namespace threads_test;
  CHECK_NOTHROW(threads::run(
      4, [](threads::communicator& comm) { test::comm_suite::check_heard(std::move(comm)); }));
  for (auto const how : test::comm_suite::all_waits) {
    CAPTURE(static_cast<int>(how));
    CHECK_NOTHROW(threads::run(4, [&](threads::communicator& comm) {
      test::comm_suite::check_abort(std::move(comm), how);
    }));
    CHECK_NOTHROW(threads::run(4, [&](threads::communicator& comm) {
      test::comm_suite::check_reason(std::move(comm), how);
    }));
    CHECK_NOTHROW(test::run_with_deadline(4, 100ms, [&](threads::communicator& comm) {
      test::comm_suite::check_deadline(std::move(comm), how, "0.1");
    }));
  }
}

TEST_CASE("sender and receiver must agree in type and count") {
  using namespace threads_test;
  auto const found = messages_of(3, [](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(comm.rank() == 0 ? 4 : 6);
    if (comm.rank() == 0) comm.send(s, std::span(x), 2, 1).wait();
    if (comm.rank() == 2) comm.recv(s, std::span(x), 0, 1).wait();
    if (comm.rank() == 1) comm.barrier(s).wait();  // woken too
  });
  for (auto const& message : found) {
    CHECK(contains(message,
                   "sender and receiver disagree in count: rank 0: send of 4 f32 to rank "
                   "2, tag 1 at "));
    CHECK(contains(message, "; rank 2: recv of 6 f32 from rank 0, tag 1 at "));
  }
}

TEST_CASE("wrong arguments are refused on the spot with the call site") {
  using namespace threads_test;
  threads::run(2, [](threads::communicator& comm) {
    host::stream s;
    std::vector<float> x(7);
    std::vector<float> y(2);
    auto const at = [&](auto f) { return message_of(f); };
    auto const scatter = at([&] { (void)comm.reduce_scatter(s, std::span(y), x, reduction::sum); });
    require(contains(scatter, "the input has 7 elements, expected 2 shards of 2"), scatter);
    auto const gather = at([&] { (void)comm.all_gather(s, std::span(x), y); });
    require(contains(gather, "the output has 7 elements, expected 2 shards of 2"), gather);
    auto const overlap =
        at([&] { (void)comm.all_gather(s, std::span(x).first(4), std::span(x).subspan(1, 2)); });
    require(contains(overlap, "is not this rank's own part"), overlap);
    auto const uneven = at([&] { (void)comm.all_to_all(s, std::span(x), std::vector<float>(7)); });
    require(contains(uneven,
                     "the input has 7 elements and the output 7, expected the same "
                     "multiple of 2"),
            uneven);
    auto const shorter = at([&] { (void)comm.all_to_all(s, std::span(y), std::span(x).first(4)); });
    require(contains(shorter, "the input has 4 elements and the output 2"), shorter);
    auto const transposed =
        at([&] { (void)comm.all_to_all(s, std::span(x).first(4), std::span(x).last(4)); });
    require(contains(transposed, "the output overlaps the input"), transposed);
    auto const root = at([&] { (void)comm.broadcast(s, std::span(x), 2); });
    require(contains(root, "root 2 is not a rank of this communicator of 2"), root);
    auto const self = at([&] { (void)comm.send(s, std::span(x), comm.rank()); });
    require(contains(self, "is to itself"), self);
    auto const tag = at([&] { (void)comm.recv(s, std::span(x), 1 - comm.rank(), -1); });
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

TEST_CASE("the errors of a part name ranks as the world does, and stop the world") {
  using namespace threads_test;
  auto const said = messages_of(5,
                                [](threads::communicator& comm) {
                                  auto part =
                                      comm.split(comm.rank() % 2, "tensor");  // 0, 2, 4 and 1, 3
                                  host::stream s;
                                  std::vector<float> x(comm.rank() == 3 ? 4 : 6);
                                  if (comm.rank() % 2 == 1)
                                    part.all_reduce(s, std::span(x), reduction::sum).wait();
                                  else
                                    comm.barrier(s).wait();  // the odd ranks never come
                                },
                                {.deadline = 20s});
  for (auto const& message : said) {
    CAPTURE(message);
    CHECK(contains(message, "ranks disagree in count"));
    CHECK(contains(message, "rank 1: all_reduce(sum) of 6 f32 over tensor at "));
    CHECK(contains(message, "rank 3: all_reduce(sum) of 4 f32"));
  }
}

TEST_CASE("who does not come to a part's call is named as in the world") {
  using namespace threads_test;
  auto const said = messages_of(4,
                                [](threads::communicator& comm) {
                                  auto part = comm.split(comm.rank() / 2);
                                  host::stream s;
                                  std::vector<float> x(3);
                                  if (comm.rank() == 2) part.recv(s, std::span(x), 1).wait();
                                  if (comm.rank() == 3) part.barrier(s).wait();
                                },
                                {.deadline = 300ms});
  CHECK(contains(said[2] + said[3], "rank 3"));
  CHECK(contains(said[2], "of 3 f32 from rank 3, tag 0"));
}

TEST_CASE("colors are not negative") {
  using namespace threads_test;
  CHECK(contains(messages_of(1, [](auto& comm) { (void)comm.split(-2); })[0],
                 "split: the color must not be negative, but is -2"));
}
