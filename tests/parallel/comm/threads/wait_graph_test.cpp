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

#include "parallel/comm/suite.hpp"

namespace wait_graph_test {

using namespace parallel;
using namespace std::chrono_literals;
using test::comm_suite::message_of;

bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

/// What each rank's program threw. A deadline would only come after minutes.
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

/// The same program over the bare communicator, a checked one, and a recorded checked one.
template <class Program>
void for_each_kind(int ranks, Program program, std::vector<std::string> const& parts) {
  auto const expect = [&](std::string const& kind, auto wrap) {
    auto const found = messages_of(ranks, [&](any_communicator& comm) {
      auto wrapped = wrap(std::move(comm));
      program(wrapped);
    });
    for (std::string const& message : found) {
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

TEST_CASE("two ranks that both receive first are told at once") {
  auto const program = [](auto& comm) {
    host::stream s;
    std::vector<float> x(4);
    int const other = 1 - comm.rank();
    comm.recv(s, std::span(x), other, 5).wait();
    comm.send(s, std::span(x), other, 5).wait();
  };
  for_each_kind(2, program,
                {"rank 0 waits in recv of 4 f32 from rank 1, tag 5 at wait_graph_test.cpp:",
                 " for rank 1", "rank 1 waits in recv of 4 f32 from rank 0, tag 5", " for rank 0"});
}

TEST_CASE("two ranks that both send first on one stream are told though nobody waits yet") {
  auto const program = [](auto& comm) {
    host::stream s;
    std::vector<float> x(4), y(4);
    int const other = 1 - comm.rank();
    auto a = comm.send(s, std::span(x), other);
    auto b = comm.recv(s, std::span(y), other);
    s.synchronize();  // unseen by the communicator: the queue is enough
  };
  for_each_kind(2, program, {"rank 0 waits in send of 4 f32 to rank 1", "rank 1 waits in send of"});
}

TEST_CASE("three ranks in a circle are all named, and a fourth that waits for them is not") {
  auto const program = [](auto& comm) {
    host::stream s;
    std::vector<float> x(4);
    int const me = comm.rank();
    if (me == 3)
      comm.recv(s, std::span(x), 0).wait();
    else
      comm.recv(s, std::span(x), (me + 1) % 3).wait();
    comm.send(s, std::span(x), (me + 2) % 3).wait();
  };
  for_each_kind(4, program,
                {"rank 0 waits in recv of 4 f32 from rank 1",
                 "rank 1 waits in recv of 4 f32 from "
                 "rank 2",
                 "rank 2 waits in recv of 4 f32 from rank 0"});
  for (auto const& message : messages_of(4, program)) CHECK(!contains(message, "rank 3 waits"));
}

TEST_CASE("collectives of two groups in different orders are told at once") {
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

TEST_CASE("so are they when all calls are only queued, in groups of other ranks too") {
  for_each_kind(4,
                [](auto& comm) {
                  auto all = comm.split(0, "all");
                  auto pair = comm.split(comm.rank() / 2, "pair");
                  host::stream s;
                  std::vector<float> x(4);
                  std::vector<request> pending;
                  // Ranks 2 and 3 agree; 0 and 1 do not.
                  if (comm.rank() != 1) pending.push_back(all.barrier(s));
                  pending.push_back(pair.all_reduce(s, std::span(x), reduction::sum));
                  if (comm.rank() == 1) pending.push_back(all.barrier(s));
                  s.synchronize();
                },
                {"rank 0 waits in barrier over all",
                 "rank 1 waits in all_reduce(sum) of 4 f32 "
                 "over pair"});
}

TEST_CASE("a collective of the whole and a message, or a split, that wait for each other") {
  auto const message = [](auto& comm) {
    host::stream s;
    std::vector<float> x(4);
    if (comm.rank() == 0) comm.recv(s, std::span(x), 1).wait();
    comm.barrier(s).wait();
    if (comm.rank() == 1) comm.send(s, std::span(x), 0).wait();
  };
  for_each_kind(2, message, {"rank 0 waits in recv of 4 f32 from rank 1", "rank 1 waits in barri"});
  auto const part = [](any_communicator& comm) {
    host::stream s;
    if (comm.rank() == 0) (void)comm.split(0);
    comm.barrier(s).wait();
  };
  for (auto const& told : messages_of(2, part)) {  // `checked` sees that the two calls differ
    CHECK(contains(told, "deadlock: "));
    CHECK(contains(told, "rank 0 waits in split into color 0 for rank 1"));
    CHECK(contains(told, "rank 1 waits in barrier at wait_graph_test.cpp:"));
  }
}

TEST_CASE("a rank that can still come on another stream, or by another thread, is waited for") {
  auto const ring = [](any_communicator& comm) {
    host::stream in, out;
    std::vector<float> x(4), y(4);
    auto received = comm.recv(in, std::span(y), 1 - comm.rank());
    std::this_thread::sleep_for(20ms * (1 + comm.rank()));
    auto sent = comm.send(out, std::span(x), 1 - comm.rank());
    received.wait();
    sent.wait();
  };
  auto const helper = [](any_communicator& comm) {
    host::stream s, other;
    std::vector<float> x(4), y(4);
    auto received = comm.recv(s, std::span(y), 1 - comm.rank());
    std::jthread const second([&] {
      comm.barrier(other).wait();  // from now on the rank has two threads that make calls
      std::this_thread::sleep_for(50ms);
      comm.send(other, std::span(x), 1 - comm.rank()).wait();
    });
    std::this_thread::sleep_for(20ms);  // used by one thread at a time
    received.wait();
  };
  auto const patience = [](any_communicator& comm) {
    host::stream in, out;
    std::vector<float> x(4), y(4);
    auto received = comm.recv(in, std::span(y), 1 - comm.rank());
    if (comm.rank() == 1) received.wait();
    CHECK(received.wait_until(std::chrono::steady_clock::now() + 50ms) == (comm.rank() == 1));
    comm.send(out, std::span(x), 1 - comm.rank()).wait();
    received.wait();
  };
  for (auto const& program : {std::function<void(any_communicator&)>(ring), {helper}, {patience}})
    for (auto const& message : messages_of(2, program)) CHECK(message == "nothing was thrown");
}

TEST_CASE("a host that is about to wake up is not taken to wait") {
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

/// Every rank makes the same random calls, of four groups, in one order, on streams that it chooses
/// itself, and now and then waits for one of them: no deadlock, whatever the delays.
template <class C>
void random_calls(C& comm, unsigned seed, int calls) {
  std::vector<C> groups;
  groups.push_back(comm.split(0, "all"));
  groups.push_back(comm.split(comm.rank() % 2, "odd"));
  groups.push_back(comm.split(comm.rank() / 2, "half"));
  std::mt19937 shared(seed);
  std::mt19937 own(seed * 100 + static_cast<unsigned>(comm.rank()));
  host::stream streams[3];
  std::vector<std::vector<std::uint64_t>> data;
  data.reserve(static_cast<std::size_t>(calls));
  std::vector<std::uint64_t> expected;
  std::vector<request> pending;
  for (int k = 0; k < calls; ++k) {
    auto& s = streams[own() % 3];
    auto const value = shared() % 1000;
    auto& group = groups[shared() % 3];
    int const from = static_cast<int>(shared() % 4);
    int const to = static_cast<int>((static_cast<unsigned>(from) + 1 + shared() % 3) % 4);
    bool const message = shared() % 2 == 0;
    if (own() % 3 == 0)
      s.enqueue([us = own() % 200] { std::this_thread::sleep_for(std::chrono::microseconds(us)); });
    if (message && comm.rank() != from && comm.rank() != to) continue;
    auto& x = data.emplace_back(9, value);
    expected.push_back(message ? value : value * static_cast<std::uint64_t>(group.size()));
    if (!message) {
      pending.push_back(group.all_reduce(s, std::span(x), reduction::sum));
    } else if (comm.rank() == from) {
      pending.push_back(comm.send(s, std::span(x), to, k % 3));
    } else {
      std::fill(x.begin(), x.end(), 0);
      pending.push_back(comm.recv(s, std::span(x), from, k % 3));
    }
    if (own() % 4 == 0) pending[own() % pending.size()].wait();
  }
  for (auto& one : pending) one.wait();
  for (std::size_t i = 0; i < data.size(); ++i)
    require(data[i].front() == expected[i] && data[i].back() == expected[i], "call ", i);
}

TEST_CASE("no deadlock is seen where there is none, in random programs with random delays") {
  for (unsigned seed = 0; seed < 6; ++seed)
    for (bool const check : {false, true}) {
      CAPTURE(seed);
      auto const found = messages_of(4, [&](any_communicator& comm) {
        if (check) {
          checked checker(std::move(comm));
          random_calls(checker, seed, 300);
        } else {
          random_calls(comm, seed, 300);
        }
      });
      for (auto const& message : found) CHECK(message == "nothing was thrown");
    }
}

}  // namespace wait_graph_test
