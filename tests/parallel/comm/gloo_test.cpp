// Ranks are threads here, each with connections of its own, as processes have them.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
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

inline gloo::sealer with_key(std::string const& key) {
  return [key](std::string_view text) {
    auto hash = std::to_string(parallel::fnv1a(concat(key, text)));
    hash.resize(20, ' ');
    return hash;
  };
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
  auto const alike = told([&](auto& mine) { mine.seal = with_key("this run"); });
  CHECK(alike[0] == "nothing was thrown");
  CHECK(alike[1] == "nothing was thrown");
  auto const keys = told([&](auto& mine) { mine.seal = with_key(mine.rank == 0 ? "a" : "b"); });
  CHECK(contains(keys[0], "rank-1: this is not of rank 1 of this run: its seal is wrong"));
  CHECK(contains(keys[1], "rank-0: this is not of rank 0 of this run: its seal is wrong"));
  // a rank whose address is right, and whose connection is somebody else's
  auto const greeting = told(
      [&](auto& mine) {
        if (mine.rank == 0) return void(mine.seal = with_key("key"));
        mine.deadline = 10s;  // the other ends first
        mine.seal = [right = with_key("key"), wrong = with_key("no")](std::string_view text) {
          return text.starts_with("rank 1 to rank 0\nhello") ? wrong(text) : right(text);
        };
      },
      {.deadline = 1s});
  CAPTURE(greeting[0]);  // which of two connects to the other is left to their addresses
  CHECK((contains(greeting[0], "found somebody who does not have this run's key") ||
         contains(greeting[0], "connections of others than this run's ranks were dropped") ||
         contains(greeting[0], "cannot connect to rank 1")));  // it has ended before this one
  // nobody comes
  meeting_place const place;
  CHECK_THROWS_WITH_AS(
      gloo::communicator({.ranks = 2, .rendezvous = place.folder, .deadline = 300ms}),
      doctest::Contains(
          ("rank 1 has not come to the rendezvous in " + place.folder.string()).c_str()),
      parallel::timed_out);
  auto const nowhere = message_of([&] {
    gloo::communicator({.ranks = 2, .rendezvous = place.folder, .interface = "no-such0"});
  });
  CHECK(contains(nowhere, "rank 0 cannot connect to the others over the interface no-such0"));
}

/// Who has left an address as rank 1, and is no rank.
struct impostor {
  using endpoint = gloo::detail::endpoint;

  /// `where`: 127.0.0.2 lies behind the rank's own, which so listens; a low port before it.
  template <class Address>
  impostor(std::filesystem::path const& folder, Address const& where)
      : meeting(folder, 1, {}),
        record(endpoint(&where, sizeof where).bytes() + gloo::detail::rendezvous::random_record()) {
    meeting.write_records({record, record});
  }
  /// Connects to rank 0, once it listens, and shows what rank 1 would.
  [[nodiscard]] parallel::descriptor connect() const {
    parallel::patience limit(10s);
    auto const theirs = meeting.read_record(0, record.size(), limit);
    endpoint const to(theirs);
    parallel::descriptor out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK(::connect(out.get(), to.get(), to.length()) == 0);
    auto const shown = gloo::detail::mutual_connections::hello(1, meeting.greeting(1, 0, record, theirs));
    CHECK(::send(out.get(), shown.data(), shown.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(shown.size()));
    std::string answer(meeting.greeting(0, 1, theirs, record).size(), ' ');
    CHECK(::recv(out.get(), answer.data(), answer.size(), MSG_WAITALL) ==
          static_cast<ssize_t>(answer.size()));
    CHECK(answer == meeting.greeting(0, 1, theirs, record));
    return out;
  }

  gloo::detail::rendezvous meeting;
  std::string record;
};

inline sockaddr_in ip4(std::uint32_t address, std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_addr.s_addr = htonl(address);
  out.sin_port = htons(port);
  return out;
}

TEST_CASE("a gloo rank that cannot be reached is named, and another start may help") {
  // what rank 0 is told, and as which error
  auto const told = [](auto const& where, auto act) {
    meeting_place const place;
    impostor const other(place.folder, where);
    std::thread acting([&] { act(other); });
    std::string out = "nothing";
    try {
      gloo::communicator const comm({.ranks = 2, .rendezvous = place.folder, .deadline = 300ms});
    } catch (parallel::timed_out const& problem) {
      out = concat("timed out: ", problem.what());
    } catch (parallel::aborted const& problem) {
      out = concat("aborted: ", problem.what());
    } catch (parallel::error const& problem) {
      out = concat("refused: ", problem.what());
    }
    acting.join();
    return out;
  };
  auto const idle = [](impostor const&) {};
  auto const behind = ip4(0x7f000002, 9);
  auto const absent = told(behind, idle);
  CAPTURE(absent);
  CHECK(absent.starts_with(
      "timed out: rank 0 waited 0.3 s to connect to rank 1, at [127.0.0.2]:9; see whether"));
  auto const gone = told(ip4(0x7f000001, 256), idle);
  CAPTURE(gone);
  CHECK(gone.starts_with("timed out: rank 0 cannot connect to rank 1 at [127.0.0.1]:256: "));
  CHECK(contains(gone, "Connection refused"));
  CHECK(contains(gone, "it has ended, and says why in its own log"));
  CHECK_FALSE(contains(gone, "interface"));
  parallel::descriptor kept;
  auto const silent = told(behind, [&](impostor const& other) { kept = other.connect(); });
  CAPTURE(silent);
  CHECK(
      silent.starts_with("timed out: rank 1 is connected to rank 0 and has not greeted within "
                         "0.3 s: it may itself be waiting to connect to another rank"));
  auto const closed =
      told(behind, [](impostor const& other) { static_cast<void>(other.connect()); });
  CAPTURE(closed);
  CHECK(
      closed.starts_with("aborted: rank 1 closed its connection to rank 0 before it had greeted"));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  auto const family = told(six, idle);
  CAPTURE(family);
  CHECK(family.starts_with("refused: rank 0 listens at [127.0.0.1]:"));
  CHECK(contains(family, "one by IPv4 and the other by IPv6"));
}

TEST_CASE("a gloo rank is connected to those behind one that it cannot reach") {
  // rank 0 waits for rank 1 in vain; rank 2 reaches both that are there
  meeting_place const place;
  auto const where = ip4(0x7f000002, 9);
  auto const record = impostor::endpoint(&where, sizeof where).bytes() + std::string(16, ' ');
  gloo::detail::rendezvous(place.folder, 1, {}).write_records({record, record, record});
  std::vector<std::string> said(3);
  std::vector<std::thread> threads;
  for (int const rank : {0, 2})
    threads.emplace_back([&, rank] {
      said[static_cast<std::size_t>(rank)] = message_of([&] {
        gloo::communicator const comm(
            {.rank = rank, .ranks = 3, .rendezvous = place.folder, .deadline = 2s});
      });
    });
  for (auto& thread : threads) thread.join();
  for (int const rank : {0, 2}) {
    auto const& text = said[static_cast<std::size_t>(rank)];
    CAPTURE(text);
    // or the other was first, and its connection is closed: never that the other does not come
    CHECK_FALSE(contains(text, rank == 0 ? "connect to rank 2" : "connect to rank 0"));
    CHECK(contains(text, "to connect to rank 1, at [127.0.0.2]:9"));
  }
}

/// Connects to ranks that listen, as anybody may, and is none.
struct stranger {
  /// Reads where rank `rank` listens, as a port scan finds it.
  stranger(std::filesystem::path const& folder, int rank) {
    gloo::detail::rendezvous const meeting(folder, 0, {});  // the first record
    parallel::patience limit(60s);
    where = impostor::endpoint(meeting.read_record(rank, impostor::endpoint::size, limit));
  }
  /// Connects, and says that, as much of it as is taken; -1: nobody listens any more.
  [[nodiscard]] parallel::descriptor say(std::string_view text) const {
    parallel::descriptor out(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(out.get(), where.get(), where.length()) != 0) return parallel::descriptor();
    if (!text.empty())
      static_cast<void>(::send(out.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    return out;
  }
  impostor::endpoint where;
};

TEST_CASE("gloo: strangers who connect before the ranks do are dropped, and all ranks connect") {
  using gloo::detail::mutual_connections;
  for (bool const sealed : {false, true}) {
    CAPTURE(sealed);
    std::mutex mutex;
    std::vector<parallel::descriptor> silent;
    CHECK_NOTHROW(run(3,
                      [&](gloo::communicator_options const& options) {
                        if (options.rank >
                            0) {  // rank 0 listens meanwhile, and the last rank after them
                          stranger const one(options.rendezvous, options.rank - 1);
                          CHECK(one.say("").get() >= 0);
                          for (int i = 0; i < 100; ++i) {  // more than are kept at once
                            std::scoped_lock const lock(mutex);
                            silent.push_back(one.say(i % 2 == 0 ? "" : "GET / HTTP/1.1\r\n"));
                            CHECK(silent.back().get() >= 0);
                          }
                          auto const wrong = [](int name) {
                            return mutual_connections::hello(name, std::string(1000, 'x'));
                          };
                          for (int const name : {-1, 0, 1, 2, 3, 1 << 30})
                            CHECK(one.say(wrong(name)).get() >= 0);
                          std::scoped_lock const lock(mutex);
                          silent.push_back(one.say(std::string(std::size_t{1} << 20, 'y')));
                        }
                        gloo::communicator comm(options);
                        parallel::host::stream s;
                        std::vector<int> sum{comm.rank()};
                        comm.all_reduce(s, std::span(sum), parallel::reduction::sum).wait();
                        CHECK(sum[0] == 3);
                      },
                      {.seal = sealed ? with_key("key") : gloo::sealer(), .deadline = 100s}));
  }
}

TEST_CASE(
    "gloo: ranks connect while strangers keep connecting, and megabytes of theirs are not read") {
  std::atomic<bool> over = false;
  std::atomic<int> calls = 0;
  std::vector<std::thread> flood;
  CHECK_NOTHROW(run(3,
                    [&](gloo::communicator_options const& options) {
                      if (options.rank == 2) {
                        for (int const rank : {0, 1})
                          flood.emplace_back([&, one = stranger(options.rendezvous, rank)] {
                            std::string const much(std::size_t{1} << 20, 'z');
                            for (std::vector<parallel::descriptor> held; !over; ++calls) {
                              held.push_back(
                                  one.say(calls % 64 == 0 ? std::string_view(much) : ""));
                              if (held.size() > 50) held.clear();
                            }
                          });
                        while (calls < 100) std::this_thread::sleep_for(1ms);
                      }
                      gloo::communicator comm(options);
                      parallel::host::stream s;
                      std::vector<int> sum{comm.rank()};
                      comm.all_reduce(s, std::span(sum), parallel::reduction::sum).wait();
                      CHECK(sum[0] == 3);
                    },
                    {.deadline = 100s}));
  over = true;
  for (auto& one : flood) one.join();
}

TEST_CASE("gloo: where a rank does not come, strangers are told of and not taken for it") {
  meeting_place const place;
  auto const where = ip4(0x7f000002, 9);
  impostor const other(place.folder, where);
  std::thread calling([&] {
    stranger const one(place.folder, 0);
    CHECK(one.say("").get() >= 0);
  });
  auto const said = message_of([&] {
    gloo::communicator const comm({.ranks = 2, .rendezvous = place.folder, .deadline = 3s});
  });
  calling.join();
  CAPTURE(said);
  CHECK(contains(said, "rank 0 waited 3 s to connect to rank 1, at [127.0.0.2]:9; see whether"));
  CHECK(contains(said,
                 "connections of others than this run's ranks were dropped, the last from "
                 "[127.0.0.1]:"));
}

TEST_CASE("gloo: who answers in the place of a rank without the key is no rank") {
  meeting_place const place;
  auto const where =
      ip4(0x7f000001, 0);  // before the rank's own, if its port is: it draws another else
  std::string said;
  for (int tries = 0; tries < 50 && !contains(said, "has reached"); ++tries) {
    parallel::descriptor const again(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(again.get(), reinterpret_cast<sockaddr const*>(&where), sizeof where) == 0);
    REQUIRE(::listen(again.get(), 16) == 0);
    auto const at = impostor::endpoint::of_socket(again.get());
    gloo::detail::rendezvous const meeting(place.folder, 1, {});
    auto const record = at.bytes() + gloo::detail::rendezvous::random_record();
    meeting.write_records({record, record});
    std::atomic<bool> over = false;
    std::thread answering([&] {
      for (pollfd event{again.get(), POLLIN, 0}; !over;) {
        if (::poll(&event, 1, 20) <= 0) continue;
        parallel::descriptor const one(::accept(again.get(), nullptr, nullptr));
        std::string const wrong(1000, 'w');
        static_cast<void>(::send(one.get(), wrong.data(), wrong.size(), MSG_NOSIGNAL));
        std::string some(1000, ' ');
        static_cast<void>(::recv(one.get(), some.data(), some.size(), 0));
      }
    });
    said = message_of([&] {
      gloo::communicator const comm({.ranks = 2, .rendezvous = place.folder, .deadline = 500ms});
    });
    over = true;
    answering.join();
    std::filesystem::remove(place.folder / "rank-0");
  }
  CAPTURE(said);
  CHECK(contains(said, "rank 0 has reached rank 1, at [127.0.0.1]:"));
  CHECK(contains(said, "and found somebody who does not have this run's key"));
}

}  // namespace gloo_test
