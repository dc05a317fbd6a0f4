#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/recorded.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/support/files.hpp>

#include "parallel/comm/suite.hpp"

namespace wait_graph_test {

using namespace parallel;
using namespace std::chrono_literals;
using test::comm_suite::message_of;

using test::contains;

/// The message of the exception that each rank's program threw. A deadline would take minutes.
template <class Program>
std::vector<std::string> messages_of(int ranks, Program program) {
  std::vector<std::string> out(static_cast<std::size_t>(ranks));
  auto const begin = std::chrono::steady_clock::now();
  threads::run(ranks, [&](threads::communicator& plain) {
    auto const rank = static_cast<std::size_t>(plain.rank());
    any_communicator comm(std::move(plain));
    out[rank] = message_of([&] { program(comm); });
  });
  CHECK(std::chrono::steady_clock::now() - begin < 60s);
  return out;
}

/// Runs the program over the bare communicator, a checked one and a recorded checked one; each rank
/// must report a deadlock with all `parts` in its message.
template <class Program>
void for_each_kind(int ranks, Program program, std::vector<std::string> const& parts) {
  auto const expect = [&](std::string const& kind, auto wrap) {
    auto const messages = messages_of(ranks, [&](any_communicator& comm) {
      auto wrapped = wrap(std::move(comm));
      program(wrapped);
    });
    for (std::string const& message : messages) {
      CAPTURE(kind);
      CAPTURE(message);
      CHECK(contains(message, "deadlock: "));
      for (auto const& part : parts) CHECK(contains(message, part));
    }
  };
  expect("bare", [](any_communicator inner) { return inner; });
  expect("checked", [](any_communicator inner) { return checked(std::move(inner)); });
  expect("recorded", [](any_communicator inner) {
    return recorded(checked(std::move(inner)), std::make_shared<flight_recorder>());
  });
}

TEST_CASE("wait graph: two ranks that both receive first get an error at once") {
  auto const program = [](auto& comm) {
    host::stream s;
    std::vector<float> x(4);
    int const peer = 1 - comm.rank();
    comm.recv(s, std::span(x), peer, 5).wait();
    comm.send(s, std::span(x), peer, 5).wait();
  };
  for_each_kind(2, program,
                {"rank 0 waits in recv of 4 f32 from rank 1, tag 5 at wait_graph_test.cpp:",
                 " for rank 1", "rank 1 waits in recv of 4 f32 from rank 0, tag 5", " for rank 0"});
}

TEST_CASE(
    "wait graph: two sends before receives on one stream are a deadlock although no host waits") {
  auto const program = [](auto& comm) {
    host::stream s;
    std::vector<float> x(4), y(4);
    int const peer = 1 - comm.rank();
    auto a = comm.send(s, std::span(x), peer);
    auto b = comm.recv(s, std::span(y), peer);
    s.synchronize();  // the communicator does not see this wait; the queues show the deadlock
  };
  for_each_kind(2, program, {"rank 0 waits in send of 4 f32 to rank 1", "rank 1 waits in send of"});
}

TEST_CASE("wait graph: the ranks of a cycle are named, and a rank that waits for them is not") {
  auto const program = [](auto& comm) {
    host::stream s;
    std::vector<float> x(4);
    int const own_rank = comm.rank();
    if (own_rank == 3)
      comm.recv(s, std::span(x), 0).wait();
    else
      comm.recv(s, std::span(x), (own_rank + 1) % 3).wait();
    comm.send(s, std::span(x), (own_rank + 2) % 3).wait();
  };
  for_each_kind(4, program,
                {"rank 0 waits in recv of 4 f32 from rank 1",
                 "rank 1 waits in recv of 4 f32 from "
                 "rank 2",
                 "rank 2 waits in recv of 4 f32 from rank 0"});
  for (auto const& message : messages_of(4, program)) CHECK(!contains(message, "rank 3 waits"));
}

TEST_CASE("wait graph: collectives of two groups in different orders are found at once") {
  for_each_kind(2,
                [](auto& comm) {
                  auto first = comm.split(0, "tensor");
                  auto second = comm.split(0, "shard");
                  host::stream s;
                  std::vector<float> x(4);
                  if (comm.rank() == 0) first.all_reduce(s, std::span(x), reduction::sum).wait();
                  second.all_reduce(s, std::span(x), reduction::max).wait();
                  if (comm.rank() == 1) first.all_reduce(s, std::span(x), reduction::sum).wait();
                },
                {"rank 0 waits in all_reduce(sum) of 4 f32 over tensor at wait_graph_test.cpp:",
                 "rank 1 waits in all_reduce(max) of 4 f32 over shard at wait_graph_test.cpp:"});
}

TEST_CASE(
    "wait graph: queued collectives of groups with different ranks in different orders are found") {
  for_each_kind(4,
                [](auto& comm) {
                  auto world = comm.split(0, "all");
                  auto pair = comm.split(comm.rank() / 2, "pair");
                  host::stream s;
                  std::vector<float> x(4);
                  std::vector<request> pending;
                  // Ranks 2 and 3 agree; 0 and 1 do not.
                  if (comm.rank() != 1) pending.push_back(world.barrier(s));
                  pending.push_back(pair.all_reduce(s, std::span(x), reduction::sum));
                  if (comm.rank() == 1) pending.push_back(world.barrier(s));
                  s.synchronize();
                },
                {"rank 0 waits in barrier over all",
                 "rank 1 waits in all_reduce(sum) of 4 f32 "
                 "over pair"});
}

TEST_CASE(
    "wait graph: a collective and a message, or a split, that wait for each other are found") {
  auto const recv_program = [](auto& comm) {
    host::stream s;
    std::vector<float> x(4);
    if (comm.rank() == 0) comm.recv(s, std::span(x), 1).wait();
    comm.barrier(s).wait();
    if (comm.rank() == 1) comm.send(s, std::span(x), 0).wait();
  };
  for_each_kind(2, recv_program,
                {"rank 0 waits in recv of 4 f32 from rank 1", "rank 1 waits in barri"});
  auto const split_program = [](any_communicator& comm) {
    host::stream s;
    if (comm.rank() == 0) (void)comm.split(0);
    comm.barrier(s).wait();
  };
  for (auto const& text :
       messages_of(2, split_program)) {  // `checked` sees that the two calls differ
    CHECK(contains(text, "deadlock: "));
    CHECK(contains(text, "rank 0 waits in split into color 0 for rank 1"));
    CHECK(contains(text, "rank 1 waits in barrier at wait_graph_test.cpp:"));
  }
}

TEST_CASE("wait graph: no deadlock where a call can still come from another stream or thread") {
  auto const two_streams = [](any_communicator& comm) {
    host::stream in, out;
    std::vector<float> x(4), y(4);
    auto received = comm.recv(in, std::span(y), 1 - comm.rank());
    std::this_thread::sleep_for(20ms * (1 + comm.rank()));
    auto sent = comm.send(out, std::span(x), 1 - comm.rank());
    received.wait();
    sent.wait();
  };
  auto const two_threads = [](any_communicator& comm) {
    host::stream s, other;
    std::vector<float> x(4), y(4);
    auto received = comm.recv(s, std::span(y), 1 - comm.rank());
    std::jthread const helper([&] {
      comm.barrier(other).wait();  // from here on the rank has two threads that make calls
      std::this_thread::sleep_for(50ms);
      comm.send(other, std::span(x), 1 - comm.rank()).wait();
    });
    std::this_thread::sleep_for(20ms);  // used by one thread at a time
    received.wait();
  };
  auto const timed_wait = [](any_communicator& comm) {
    host::stream in, out;
    std::vector<float> x(4), y(4);
    auto received = comm.recv(in, std::span(y), 1 - comm.rank());
    if (comm.rank() == 1) received.wait();
    CHECK(received.wait_until(std::chrono::steady_clock::now() + 50ms) == (comm.rank() == 1));
    comm.send(out, std::span(x), 1 - comm.rank()).wait();
    received.wait();
  };
  for (auto const& program :
       {std::function<void(any_communicator&)>(two_streams), {two_threads}, {timed_wait}})
    for (auto const& message : messages_of(2, program)) CHECK(message == "nothing was thrown");
}

TEST_CASE("wait graph: a host thread that is about to wake up does not count as waiting") {
  auto const program = [](any_communicator& comm) {
    host::stream s, other;
    for (int step = 0; step < 2000; ++step) {
      std::vector<float> a(1), b(1), c(1);
      if (comm.rank() == 0) {
        auto first = comm.recv(s, std::span(a), 1, 0);
        auto third =
            comm.recv(s, std::span(c), 1, 2);  // its worker waits here when `first` is done
        first.wait();
        comm.send(other, std::span(b), 1, 1).wait();
        third.wait();
      } else {
        auto first = comm.send(other, std::span(a), 0, 0);
        comm.recv(s, std::span(b), 0, 1).wait();
        comm.send(s, std::span(c), 0, 2).wait();
        first.wait();
      }
    }
  };
  for (auto const& message : messages_of(2, program)) CHECK(message == "nothing was thrown");
}

/// Every rank makes the same random calls of three groups, and messages, in one order on streams of
/// its own choice, and sometimes waits for one of them. No delay can make that a deadlock.
template <class C>
void random_calls(C& comm, unsigned seed, int calls) {
  std::vector<C> groups;
  groups.push_back(comm.split(0, "all"));
  groups.push_back(comm.split(comm.rank() % 2, "odd"));
  groups.push_back(comm.split(comm.rank() / 2, "half"));
  std::mt19937 shared_random(seed);
  std::mt19937 own_random(seed * 100 + static_cast<unsigned>(comm.rank()));
  host::stream streams[3];
  std::vector<std::vector<std::uint64_t>> data;
  data.reserve(static_cast<std::size_t>(calls));
  std::vector<std::uint64_t> expected;
  std::vector<request> pending;
  for (int call = 0; call < calls; ++call) {
    auto& s = streams[own_random() % 3];
    auto const value = shared_random() % 1000;
    auto& group = groups[shared_random() % 3];
    int const sender = static_cast<int>(shared_random() % 4);
    int const receiver =
        static_cast<int>((static_cast<unsigned>(sender) + 1 + shared_random() % 3) % 4);
    bool const is_message = shared_random() % 2 == 0;
    if (own_random() % 3 == 0)
      s.enqueue([delay = own_random() % 200] {
        std::this_thread::sleep_for(std::chrono::microseconds(delay));
      });
    if (is_message && comm.rank() != sender && comm.rank() != receiver) continue;
    auto& x = data.emplace_back(9, value);
    expected.push_back(is_message ? value : value * static_cast<std::uint64_t>(group.size()));
    if (!is_message) {
      pending.push_back(group.all_reduce(s, std::span(x), reduction::sum));
    } else if (comm.rank() == sender) {
      pending.push_back(comm.send(s, std::span(x), receiver, call % 3));
    } else {
      std::fill(x.begin(), x.end(), 0);
      pending.push_back(comm.recv(s, std::span(x), sender, call % 3));
    }
    if (own_random() % 4 == 0) pending[own_random() % pending.size()].wait();
  }
  for (auto& request : pending) request.wait();
  for (std::size_t i = 0; i < data.size(); ++i)
    require(data[i].front() == expected[i] && data[i].back() == expected[i], "call ", i);
}

TEST_CASE("wait graph: random programs without a deadlock and with random delays report none") {
  for (unsigned seed = 0; seed < 6; ++seed)
    for (bool const is_checked : {false, true}) {
      CAPTURE(seed);
      auto const messages = messages_of(4, [&](any_communicator& comm) {
        if (is_checked) {
          checked checker(std::move(comm));
          random_calls(checker, seed, 300);
        } else {
          random_calls(comm, seed, 300);
        }
      });
      for (auto const& message : messages) CHECK(message == "nothing was thrown");
    }
}

}  // namespace wait_graph_test
