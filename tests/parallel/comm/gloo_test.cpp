// Ranks are threads here, each with connections of its own, as processes have them.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/coloring.hpp>
#include <parallel/comm/gloo/communicator.hpp>
#include <parallel/core/hash.hpp>

#include "parallel/comm/suite.hpp"
#include "parallel/comm/traffic.hpp"
#include "parallel/comm/tree.hpp"

namespace gloo_test {

namespace gloo = parallel::gloo;  // and not the library's own
using parallel::any_communicator;
using parallel::checked;
using parallel::concat;
using namespace std::chrono_literals;
using namespace test::comm_suite;

inline bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

/// A folder that is gone with this.
struct meeting_place {
  meeting_place() {
    std::string name = (std::filesystem::temp_directory_path() / "gloo_test.XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    folder = name;
  }
  ~meeting_place() { std::filesystem::remove_all(folder); }
  std::filesystem::path folder;
};

/// Calls f(options) for each rank in a thread of its own; rethrows what the first of them threw.
template <class F>
void run(int ranks, F f, gloo::communicator_options options = {}) {
  meeting_place const place;
  options.ranks = ranks;
  options.rendezvous = place.folder;
  std::mutex mutex;
  std::exception_ptr thrown;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto mine = options;
      mine.rank = rank;
      try {
        f(mine);
      } catch (...) {
        std::scoped_lock const lock(mutex);
        if (!thrown) thrown = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  if (thrown) std::rethrow_exception(thrown);
}

TEST_CASE("gloo gives the bits of the serial reference, in many pieces and in one") {
  for (int const ranks : {1, 3}) {
    CAPTURE(ranks);
    CHECK_NOTHROW(run(ranks, [&](gloo::communicator_options options) {
      options.piece_bytes = 1000;
      gloo::communicator comm(options);
      check_all(comm);
    }));
  }
  CHECK_NOTHROW(run(2, [](auto const& options) {
    any_communicator erased{checked{any_communicator{gloo::communicator{options}}}};
    check_all(erased);
  }));
}

TEST_CASE("gloo makes a part of known colors without the ranks that are not in it") {
  CHECK_NOTHROW(
      run(3,
          [](gloo::communicator_options options) {
            gloo::communicator whole(options);
            parallel::host::stream s;
            int const me = whole.rank();
            std::vector<int> word{me};
            if (me == 2)
              whole.recv(s, std::span(word), 0).wait();  // said when the others' part works
            auto part = whole.split(parallel::coloring([](int rank) { return rank / 2; }));
            std::vector<int> sum{me + 1};
            part.all_reduce(s, std::span(sum), parallel::reduction::sum).wait();
            CHECK(sum[0] == 3);  // 1 + 2, or 3 alone
            if (me == 0) whole.send(s, std::span<int const>(word), 2).wait();
          },
          {.deadline = 20s}));
}

TEST_CASE("gloo counts the bytes of its messages, and sums by the tree") {
  CHECK_NOTHROW(run(3, [](gloo::communicator_options options) {
    options.piece_bytes = 8;
    test::comm_traffic::check_traffic(gloo::communicator{options});
  }));
  CHECK_NOTHROW(run(4, [](gloo::communicator_options options) {
    options.piece_bytes = 100;
    test::comm_tree::check_tree(gloo::communicator{options});
  }));
}

TEST_CASE("abort and deadline reach gloo ranks in a part, in messages and in all_to_all") {
  for (auto const how : all_waits) {
    CAPTURE(static_cast<int>(how));
    CHECK_NOTHROW(
        run(3, [&](auto const& options) { check_abort(gloo::communicator(options), how); }));
    CHECK_NOTHROW(run(
        3, [&](auto const& options) { check_abort(checked(gloo::communicator(options)), how); }));
    CHECK_NOTHROW(
        run(3, [&](auto const& options) { check_reason(gloo::communicator(options), how); }));
    CHECK_NOTHROW(run(
        3, [&](auto const& options) { check_deadline(gloo::communicator(options), how, "0.5"); },
        {.deadline = 500ms}));
  }
  CHECK_NOTHROW(run(3, [](auto const& options) { check_heard(gloo::communicator(options)); }));
}

TEST_CASE("checked gloo ranks are all told who calls what, and who is missing") {
  run(3, [](auto const& options) {
    checked<gloo::communicator> comm{gloo::communicator{options}};
    parallel::host::stream s;
    std::vector<float> x(comm.rank() == 1 ? 3 : 5);
    auto const message =
        message_of([&] { comm.all_reduce(s, std::span(x), parallel::reduction::sum).wait(); });
    CHECK(contains(message, "ranks disagree in count (call 0 of this communicator)"));
    CHECK(contains(message, "rank 1: all_reduce(sum) of 3 f32 at gloo_test.cpp:"));
  });
  run(3,
      [](auto const& options) {
        checked<gloo::communicator> comm{gloo::communicator{options}};
        parallel::host::stream s;
        std::vector<float> x(4);
        if (comm.rank() == 2) std::this_thread::sleep_for(800ms);
        auto const message =
            message_of([&] { comm.all_reduce(s, std::span(x), parallel::reduction::sum).wait(); });
        CHECK(contains(message, "all_reduce(sum) of 4 f32 at gloo_test.cpp:"));
        CHECK(contains(message, "waited 0.4 s for rank 2; rank "));
        CHECK(contains(message, "came: all_reduce(sum) of 4 f32"));
      },
      {.deadline = 400ms});
}

TEST_CASE("who waits for a gloo rank that has returned is told soon") {
  run(3, [](auto const& options) {
    gloo::communicator whole(options);
    gloo::communicator comm = whole.split(0, "data");
    parallel::host::stream s;
    std::vector<float> x(4);
    comm.all_reduce(s, std::span(x), parallel::reduction::sum).wait();
    if (comm.rank() == 2) return;
    auto const message =
        message_of([&] { comm.all_reduce(s, std::span(x), parallel::reduction::sum).wait(); });
    CAPTURE(message);
    CHECK(message.starts_with(
        "rank 2 has returned from its program or ended its communicator, but rank "));
    CHECK(contains(message, " waits for it in all_reduce(sum) of 4 f32 over data"));
  });
}

TEST_CASE("who comes to a message after it was given up is told why it was, or that nobody says") {
  for (bool const says_why : {true, false}) {
    CAPTURE(says_why);
    auto const begin = std::chrono::steady_clock::now();
    std::string heard;
    run(2,
        [&](auto const& options) {
          gloo::communicator comm(options);
          parallel::host::stream s;
          std::vector<float> x(1000);
          if (comm.rank() == 0) {
            try {
              auto const sent = comm.send(s, std::span<float const>(x), 1);
              std::this_thread::sleep_for(50ms);
              throw parallel::error("the disk is full");
            } catch (parallel::error const& problem) {
              std::this_thread::sleep_for(300ms);  // as who has other streams to end first
              if (says_why) comm.abort(problem.what());
            }
            std::this_thread::sleep_for(2s);
            return;
          }
          std::this_thread::sleep_for(200ms);
          heard = message_of([&] { comm.recv(s, std::span(x), 0).wait(); });
          CHECK(std::chrono::steady_clock::now() - begin < 2s);
        },
        {.deadline = 20s, .grace = 1s});
    CAPTURE(heard);
    CHECK(heard.starts_with(
        says_why ? "rank 0 failed: the disk is full; rank 1 waited for rank 0 in recv"
                 : "an exception left rank 0 before its send"));
  }
}

TEST_CASE("a gloo rank that is killed is named soon") {
  meeting_place const place;
  gloo::communicator_options options{.ranks = 2, .rendezvous = place.folder};
  auto const child = ::fork();
  if (child == 0) {
    options.rank = 1;
    gloo::communicator comm(options);
    parallel::host::stream s;
    comm.barrier(s).wait();
    ::raise(SIGKILL);
  }
  REQUIRE(child > 0);
  gloo::communicator comm(options);
  parallel::host::stream s;
  comm.barrier(s).wait();
  auto const begin = std::chrono::steady_clock::now();
  auto const message = message_of([&] { comm.barrier(s).wait(); });
  CAPTURE(message);
  CHECK(message.starts_with("rank 1 is gone: its connection to rank 0 was closed without a word"));
  CHECK(contains(message, "rank 0 waited for it in barrier"));
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
  int status = 0;
  ::waitpid(child, &status, 0);
}

TEST_CASE("gloo ranks do not take strangers for ranks of theirs") {
  // what each rank is told
  auto const told = [](auto const& change, gloo::communicator_options options = {}) {
    std::vector<std::string> out(2);
    run(
        2,
        [&](gloo::communicator_options mine) {
          change(mine);
          auto const rank = static_cast<std::size_t>(mine.rank);
          out[rank] = message_of([&] { gloo::communicator const comm(mine); });
        },
        options);
    return out;
  };
  auto const with_key = [](std::string const& key) {
    return [key](std::string_view text) {
      auto hash = std::to_string(parallel::fnv1a(concat(key, text)));
      hash.resize(20, ' ');
      return hash;
    };
  };
  auto const alike = told([&](auto& mine) { mine.seal = with_key("this run"); });
  CHECK(alike[0] == "nothing was thrown");
  CHECK(alike[1] == "nothing was thrown");
  auto const keys = told([&](auto& mine) { mine.seal = with_key(mine.rank == 0 ? "a" : "b"); });
  CHECK(contains(keys[0], "rank-1: this is not of rank 1 of this run: its seal is wrong"));
  CHECK(contains(keys[1], "rank-0: this is not of rank 0 of this run: its seal is wrong"));
  // a rank whose address is right, and whose connection is somebody else's
  auto const greeting = told([&](auto& mine) {
    if (mine.rank == 0) return void(mine.seal = with_key("key"));
    mine.seal = [right = with_key("key"), wrong = with_key("no")](std::string_view text) {
      return text.starts_with("rank 1 to rank 0\nhello") ? wrong(text) : right(text);
    };
  });
  CHECK(contains(greeting[0], "somebody connected to rank 0 as rank 1 who does not have this"));
  // nobody comes
  meeting_place const place;
  auto const alone = message_of(
      [&] { gloo::communicator({.ranks = 2, .rendezvous = place.folder, .deadline = 300ms}); });
  CHECK(contains(alone, "rank 1 has not come to the rendezvous in " + place.folder.string()));
  auto const nowhere = message_of([&] {
    gloo::communicator({.ranks = 2, .rendezvous = place.folder, .interface = "no-such0"});
  });
  CHECK(contains(nowhere, "rank 0 cannot connect to the others over the interface no-such0"));
}

}  // namespace gloo_test
