#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/faulty.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/support/files.hpp>

#include "parallel/comm/suite.hpp"

namespace checked_decorators_test {

using namespace parallel;
using namespace std::chrono_literals;
using test::comm_suite::check_all;
using test::comm_suite::message_of;

using test::contains;

}  // namespace checked_decorators_test

TEST_CASE("checked: decorated and erased communicators give the same bits") {
  using namespace checked_decorators_test;
  for (int const n : {1, 2, 3, 5}) {
    CAPTURE(n);
    CHECK_NOTHROW(threads::run(n, [](threads::communicator& comm) {
      checked checker(any_communicator(checked(any_communicator(std::move(comm)))));
      faulty harmless(std::move(checker), fault{});
      any_communicator erased(std::move(harmless));
      check_all(erased);
    }));
  }
}

TEST_CASE("checked: every rank learns what the others call") {
  using namespace checked_decorators_test;
  std::vector<std::string> messages(3);
  threads::run(3, [&](threads::communicator& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    checked<threads::communicator> checker(std::move(comm));
    host::stream s;
    std::vector<float> x(6);
    messages[rank] = message_of([&] {
      if (rank == 2)
        checker.reduce_scatter(s, std::span(x).last(2), x, reduction::sum).wait();
      else
        checker.all_reduce(s, std::span(x), reduction::sum).wait();
    });
  });
  for (auto const& message : messages) {
    CHECK(contains(message, "ranks disagree in operation, count (call 0 of this communicator)"));
    CHECK(
        contains(message, "ranks 0, 1: all_reduce(sum) of 6 f32 at checked_decorators_test.cpp:"));
    CHECK(
        contains(message, "rank 2: reduce_scatter(sum) of 2 f32 at checked_decorators_test.cpp:"));
  }
}

TEST_CASE("checked: the call sites may be required to agree") {
  using namespace checked_decorators_test;
  for (auto const sites : {call_sites::may_differ, call_sites::must_agree}) {
    std::vector<std::string> messages(2);
    threads::run(2, [&](threads::communicator& comm) {
      auto const rank = static_cast<std::size_t>(comm.rank());
      checked<threads::communicator> checker(std::move(comm), {.sites = sites});
      host::stream s;
      messages[rank] = message_of([&] {
        if (rank == 0)
          checker.barrier(s).wait();
        else
          checker.barrier(s).wait();
      });
    });
    for (auto const& message : messages)
      CHECK(contains(message, sites == call_sites::may_differ ? "nothing was thrown"
                                                              : "disagree in call site"));
  }
}

TEST_CASE("checked: the missing rank is named, and the calls of the others") {
  using namespace checked_decorators_test;
  std::vector<std::string> messages(3);
  threads::run(3,
               [&](threads::communicator& comm) {
                 auto const rank = static_cast<std::size_t>(comm.rank());
                 checked<threads::communicator> checker(std::move(comm));
                 host::stream s;
                 std::vector<float> x(6);
                 if (rank == 1) return std::this_thread::sleep_for(1s);  // computes
                 messages[rank] = message_of(
                     [&] { checker.all_reduce(s, std::span(x), reduction::sum).wait(); });
               },
               {.deadline = 50ms});
  for (std::size_t const rank : {0, 2}) {
    CHECK(contains(messages[rank], "all_reduce(sum) of 6 f32 at checked_decorators_test.cpp:"));
    CHECK(contains(messages[rank], "waited 0.05 s for rank 1; rank "));
    CHECK(contains(messages[rank], "rank 1 is in no collective"));
  }
}

TEST_CASE("checked: sender and receiver are compared before data moves") {
  using namespace checked_decorators_test;
  std::vector<std::string> messages(2);
  threads::run(2, [&](threads::communicator& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    checked<threads::communicator> checker(std::move(comm));
    host::stream s;
    std::vector<float> x(6);
    std::vector<double> y(6);
    messages[rank] = message_of([&] {
      if (rank == 0)
        checker.send(s, std::span(x), 1).wait();
      else
        checker.recv(s, std::span(y), 0).wait();
    });
  });
  for (auto const& message : messages)
    CHECK(contains(message, "sender and receiver disagree in element type: rank 0: send of 6 f32"));
}

TEST_CASE("checked: errors in a subgroup name ranks by their world numbers, checked twice too") {
  using namespace checked_decorators_test;
  std::vector<std::string> messages(4);
  threads::run(4, [&](threads::communicator& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    checked world(any_communicator(checked(any_communicator(std::move(comm)))));
    auto pair = world.split(static_cast<int>(rank) / 2, "pair");
    host::stream s;
    std::vector<float> x(rank == 3 ? 6 : 4);
    if (rank < 2) return;
    messages[rank] = message_of([&] {
      if (rank == 2)
        pair.send(s, std::span(x), 1).wait();
      else
        pair.recv(s, std::span(x), 0).wait();
    });
  });
  for (std::size_t const rank : {2, 3}) {
    CHECK(contains(messages[rank], "rank 2: send of 4 f32 to rank 3, tag 0 over pair at "));
    CHECK(contains(messages[rank], "rank 3: recv of 6 f32 from rank 2, tag 0 over pair at "));
  }
}

TEST_CASE("checked: abort and deadline pass through decorators") {
  using namespace checked_decorators_test;
  CHECK_NOTHROW(threads::run(3, [](threads::communicator& comm) {
    test::comm_suite::check_abort_polling(
        any_communicator(faulty(checked(any_communicator(std::move(comm))), fault{})));
  }));
  for (auto const wait_kind : test::comm_suite::all_waits) {
    CAPTURE(static_cast<int>(wait_kind));
    auto const wrapped = [](threads::communicator& comm) {
      return any_communicator(faulty(checked(any_communicator(std::move(comm))), fault{}));
    };
    CHECK_NOTHROW(threads::run(3, [&](threads::communicator& comm) {
      test::comm_suite::check_abort(wrapped(comm), wait_kind);
    }));
    CHECK_NOTHROW(test::run_with_deadline(3, 100ms, [&](threads::communicator& comm) {
      test::comm_suite::check_deadline(wrapped(comm), wait_kind, "0.1");
    }));
  }
}

TEST_CASE("faulty: exactly the chosen call is broken") {
  using namespace checked_decorators_test;
  auto const sums_with = [](fault broken_call) {
    std::vector<std::vector<float>> results(2);
    threads::run(2, [&](threads::communicator& comm) {
      auto const rank = static_cast<std::size_t>(comm.rank());
      faulty<threads::communicator> broken(std::move(comm), broken_call);
      host::stream s;
      for (int call = 0; call < 3; ++call) {
        std::vector<float> x{3.0F + static_cast<float>(rank)};
        broken.all_reduce(s, std::span(x), reduction::sum).wait();
        results[rank].push_back(x[0]);
      }
      require(broken.calls() == 3, "calls are not counted");
    });
    return results;
  };
  using list = std::vector<float>;
  CHECK(sums_with({}) == std::vector<list>{{7, 7, 7}, {7, 7, 7}});
  CHECK(sums_with({.call = 1, .kind = fault_kind::drop}) ==
        std::vector<list>{{7, 3, 7}, {7, 4, 7}});
  CHECK(sums_with({.call = 0, .kind = fault_kind::twice}) ==
        std::vector<list>{{14, 7, 7}, {14, 7, 7}});
  CHECK(sums_with({.call = 2, .kind = fault_kind::divide}) ==
        std::vector<list>{{7, 7, 3.5}, {7, 7, 3.5}});
}

TEST_CASE("faulty: every kind of call can be broken, and the ranks stay in step") {
  using namespace checked_decorators_test;
  using list = std::vector<std::int64_t>;
  auto const results_of = [](operation_kind kind, fault_kind injected) {
    std::vector<list> results(2);
    threads::run(2, [&](threads::communicator& comm) {
      auto const rank = static_cast<std::size_t>(comm.rank());
      faulty<threads::communicator> broken(std::move(comm), {.call = 0, .kind = injected});
      host::stream s;
      auto const own_rank = static_cast<std::int64_t>(rank);
      list x{10 + own_rank, 20 + own_rank};
      list out(1);
      list exchanged(2);
      auto& result = results[rank];
      if (kind == operation_kind::reduce_scatter) {
        broken.reduce_scatter(s, std::span(out), x, reduction::sum).wait();
        result = out;
      } else if (kind == operation_kind::all_gather) {
        broken.all_gather(s, std::span(x), std::span(x).subspan(rank, 1)).wait();
        result = x;
      } else if (kind == operation_kind::all_to_all) {
        broken.all_to_all(s, std::span(exchanged), x).wait();
        result = exchanged;
      } else if (kind == operation_kind::broadcast) {
        broken.broadcast(s, std::span(x), 0).wait();
        result = x;
      } else if (rank == 0) {
        broken.send(s, std::span(x), 1).wait();
      } else {
        broken.recv(s, std::span(x), 0).wait();
        result = x;
      }
      broken.barrier(s).wait();
    });
    return results;
  };
  using enum operation_kind;
  CHECK(results_of(reduce_scatter, fault_kind::drop) == std::vector<list>{{-1}, {-1}});
  CHECK(results_of(reduce_scatter, fault_kind::twice) == std::vector<list>{{42}, {82}});
  CHECK(results_of(reduce_scatter, fault_kind::divide) == std::vector<list>{{10}, {20}});
  CHECK(results_of(all_gather, fault_kind::drop) == std::vector<list>{{10, -1}, {-1, 21}});
  CHECK(results_of(all_gather, fault_kind::twice) == std::vector<list>{{20, 42}, {20, 42}});
  CHECK(results_of(all_to_all, fault_kind::drop) == std::vector<list>{{-1, -1}, {-1, -1}});
  CHECK(results_of(all_to_all, fault_kind::twice) == std::vector<list>{{20, 22}, {40, 42}});
  CHECK(results_of(all_to_all, fault_kind::divide) == std::vector<list>{{5, 5}, {10, 10}});
  CHECK(results_of(broadcast, fault_kind::drop) == std::vector<list>{{10, 20}, {11, 21}});
  CHECK(results_of(broadcast, fault_kind::twice) == std::vector<list>{{10, 20}, {20, 40}});
  // Both sides break: the sender what it sends, the receiver what it received.
  CHECK(results_of(send, fault_kind::drop)[1] == list{-1, -1});
  CHECK(results_of(send, fault_kind::twice)[1] == list{40, 80});
}
