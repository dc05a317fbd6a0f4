// The gloo communicator. Most tests run ranks as threads, each with its own connections as a
// process would have.
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
#include <parallel/support/files.hpp>

#include "parallel/comm/suite.hpp"
#include "parallel/comm/traffic.hpp"
#include "parallel/comm/tree.hpp"

namespace gloo_test {

namespace gloo = parallel::gloo;  // not the library's own namespace
using parallel::any_communicator;
using parallel::checked;
using parallel::concat;
using namespace std::chrono_literals;
using namespace test::comm_suite;

using test::contains;

/// A folder in which ranks meet; removed with this object.
struct rendezvous_folder {
  rendezvous_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "gloo_test.XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~rendezvous_folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

/// Calls f(options) for each rank in its own thread; rethrows the first exception.
template <class F>
void run(int ranks, F f, gloo::communicator_options options = {}) {
  rendezvous_folder const folder;
  options.ranks = ranks;
  options.rendezvous = folder.path;
  std::mutex mutex;
  std::exception_ptr thrown;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto own_options = options;
      own_options.rank = rank;
      try {
        f(own_options);
      } catch (...) {
        std::scoped_lock const lock(mutex);
        if (!thrown) thrown = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  if (thrown) std::rethrow_exception(thrown);
}

TEST_CASE("gloo: results have the bits of the serial reference, in many pieces and in one") {
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

TEST_CASE("gloo: a split with known colors needs only the ranks of the new group") {
  CHECK_NOTHROW(
      run(3,
          [](gloo::communicator_options options) {
            gloo::communicator world(options);
            parallel::host::stream s;
            int const own_rank = world.rank();
            std::vector<int> word{own_rank};
            if (own_rank == 2)
              world.recv(s, std::span(word), 0).wait();  // sent once the group of the others works
            auto group = world.split(parallel::coloring([](int rank) { return rank / 2; }));
            std::vector<int> sum{own_rank + 1};
            group.all_reduce(s, std::span(sum), parallel::reduction::sum).wait();
            CHECK(sum[0] == 3);  // 1 + 2, or 3 alone
            if (own_rank == 0) world.send(s, std::span<int const>(word), 2).wait();
          },
          {.deadline = 20s}));
}

TEST_CASE(
    "gloo: counted bytes follow the ring formula, and sums by the tree have the serial bits") {
  CHECK_NOTHROW(run(3, [](gloo::communicator_options options) {
    options.piece_bytes = 8;
    test::comm_traffic::check_traffic(gloo::communicator{options});
  }));
  CHECK_NOTHROW(run(4, [](gloo::communicator_options options) {
    options.piece_bytes = 100;
    test::comm_tree::check_tree(gloo::communicator{options});
  }));
}

TEST_CASE(
    "gloo: abort and deadline reach ranks that wait in a subgroup, in messages and in all_to_all") {
  for (auto const wait_kind : all_waits) {
    CAPTURE(static_cast<int>(wait_kind));
    CHECK_NOTHROW(
        run(3, [&](auto const& options) { check_abort(gloo::communicator(options), wait_kind); }));
    CHECK_NOTHROW(run(3, [&](auto const& options) {
      check_abort(checked(gloo::communicator(options)), wait_kind);
    }));
    CHECK_NOTHROW(
        run(3, [&](auto const& options) { check_reason(gloo::communicator(options), wait_kind); }));
  }
  std::vector<std::thread> deadline_threads;  // the deadlines pass at the same time
  for (auto const wait_kind : all_waits)
    deadline_threads.emplace_back([wait_kind] {
      CHECK_NOTHROW(run(3,
                        [&](auto const& options) {
                          check_deadline(gloo::communicator(options), wait_kind, "0.5");
                        },
                        {.deadline = 500ms}));
    });
  for (auto& thread : deadline_threads) thread.join();
  CHECK_NOTHROW(
      run(3, [](auto const& options) { check_abort_polling(gloo::communicator(options)); }));
}

TEST_CASE("gloo: checked ranks all learn which rank calls what, and which rank is missing") {
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

TEST_CASE("gloo: a rank that waits for a returned rank gets an error soon") {
  run(3, [](auto const& options) {
    gloo::communicator world(options);
    gloo::communicator comm = world.split(0, "data");
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

TEST_CASE("gloo: a receiver of an abandoned message gets the reason, or that none was given") {
  for (bool const gives_reason : {true, false}) {
    CAPTURE(gives_reason);
    auto const begin = std::chrono::steady_clock::now();
    std::string message;
    std::atomic<bool> is_received = false;
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
              std::this_thread::sleep_for(300ms);  // as if other streams had to end first
              if (gives_reason) comm.abort(problem.what());
            }
            while (!is_received) std::this_thread::sleep_for(5ms);  // without returning earlier
            return;
          }
          std::this_thread::sleep_for(200ms);
          message = message_of([&] { comm.recv(s, std::span(x), 0).wait(); });
          is_received = true;
          CHECK(std::chrono::steady_clock::now() - begin < 2s);
        },
        {.deadline = 20s, .grace = gives_reason ? 1s : 100ms});
    CAPTURE(message);
    CHECK(message.starts_with(
        gives_reason ? "rank 0 failed: the disk is full; rank 1 waited for rank 0 in recv"
                     : "an exception left rank 0 before its send"));
  }
}

TEST_CASE("gloo: a rank that is killed is named soon") {
  rendezvous_folder const folder;
  gloo::communicator_options options{.ranks = 2, .rendezvous = folder.path};
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

TEST_CASE("gloo: ranks do not accept strangers as ranks of their run") {
  // The messages of the ranks, whose options `change` has changed.
  auto const messages_with = [](auto const& change, gloo::communicator_options options = {}) {
    std::vector<std::string> out(2);
    run(
        2,
        [&](gloo::communicator_options own_options) {
          change(own_options);
          auto const rank = static_cast<std::size_t>(own_options.rank);
          out[rank] = message_of([&] { gloo::communicator const comm(own_options); });
        },
        options);
    return out;
  };
  auto const same_key =
      messages_with([&](auto& own_options) { own_options.seal = with_key("this run"); });
  CHECK(same_key[0] == "nothing was thrown");
  CHECK(same_key[1] == "nothing was thrown");
  auto const different_keys = messages_with(
      [&](auto& own_options) { own_options.seal = with_key(own_options.rank == 0 ? "a" : "b"); });
  CHECK(
      contains(different_keys[0], "rank-1: this is not of rank 1 of this run: its seal is wrong"));
  CHECK(
      contains(different_keys[1], "rank-0: this is not of rank 0 of this run: its seal is wrong"));
  // The address of rank 1 is right, but its greeting has a wrong seal.
  auto const wrong_greeting = messages_with(
      [&](auto& own_options) {
        if (own_options.rank == 0) return void(own_options.seal = with_key("key"));
        own_options.deadline = 10s;  // the other ends first
        own_options.seal = [right = with_key("key"),
                            wrong = with_key("no")](std::string_view text) {
          return text.starts_with("rank 1 to rank 0\nhello") ? wrong(text) : right(text);
        };
      },
      {.deadline = 1s});
  CAPTURE(wrong_greeting[0]);  // their addresses decide which of the two connects
  CHECK(
      (contains(wrong_greeting[0], "found somebody who does not have this run's key") ||
       contains(wrong_greeting[0], "connections of others than this run's ranks were dropped") ||
       contains(wrong_greeting[0], "cannot connect to rank 1")));  // rank 1 has ended before rank 0
  // No other rank comes.
  rendezvous_folder const folder;
  CHECK_THROWS_WITH_AS(
      gloo::communicator({.ranks = 2, .rendezvous = folder.path, .deadline = 300ms}),
      doctest::Contains(
          ("rank 1 has not come to the rendezvous in " + folder.path.string()).c_str()),
      parallel::timed_out);
  auto const unknown_interface = message_of([&] {
    gloo::communicator({.ranks = 2, .rendezvous = folder.path, .interface = "no-such0"});
  });
  CHECK(contains(unknown_interface,
                 "rank 0 cannot connect to the others over the interface no-such0"));
}

/// Has published an address as rank 1 without being a rank.
struct impostor {
  using endpoint = gloo::detail::endpoint;

  /// The rank with the lower address listens: rank 0 does for 127.0.0.2, and does not for a low
  /// port of 127.0.0.1.
  template <class Address>
  impostor(std::filesystem::path const& folder, Address const& address)
      : rendezvous(folder, 1, {}),
        record(endpoint(&address, sizeof address).bytes() +
               gloo::detail::rendezvous::random_record()) {
    rendezvous.write_records({record, record});
  }
  /// Connects to rank 0, once it listens, and sends the greeting of rank 1.
  [[nodiscard]] parallel::descriptor connect() const {
    parallel::patience limit(10s);
    auto const server_record = rendezvous.read_record(0, record.size(), limit);
    endpoint const server(server_record);
    parallel::descriptor connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK(::connect(connection.get(), server.get(), server.length()) == 0);
    auto const greeting = gloo::detail::mutual_connections::hello(
        1, rendezvous.greeting(1, 0, record, server_record));
    CHECK(::send(connection.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(greeting.size()));
    std::string answer(rendezvous.greeting(0, 1, server_record, record).size(), ' ');
    CHECK(::recv(connection.get(), answer.data(), answer.size(), MSG_WAITALL) ==
          static_cast<ssize_t>(answer.size()));
    CHECK(answer == rendezvous.greeting(0, 1, server_record, record));
    return connection;
  }

  gloo::detail::rendezvous rendezvous;
  std::string record;
};

inline sockaddr_in ip4(std::uint32_t host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host);
  address.sin_port = htons(port);
  return address;
}

TEST_CASE(
    "gloo: a rank that cannot be reached is named in an error that says whether a restart may "
    "help") {
  // The message of rank 0 after the type of its error, while an impostor at `address` runs
  // `action`.
  auto const message_at = [](auto const& address, auto action) {
    rendezvous_folder const folder;
    impostor const other(folder.path, address);
    std::thread impostor_thread([&] { action(other); });
    std::string message = "nothing";
    try {
      gloo::communicator const comm({.ranks = 2, .rendezvous = folder.path, .deadline = 300ms});
    } catch (parallel::timed_out const& problem) {
      message = concat("timed out: ", problem.what());
    } catch (parallel::aborted const& problem) {
      message = concat("aborted: ", problem.what());
    } catch (parallel::error const& problem) {
      message = concat("refused: ", problem.what());
    }
    impostor_thread.join();
    return message;
  };
  auto const idle = [](impostor const&) {};
  auto const later_address = ip4(0x7f000002, 9);
  auto const absent = message_at(later_address, idle);
  CAPTURE(absent);
  CHECK(absent.starts_with(
      "timed out: rank 0 waited 0.3 s to connect to rank 1, at [127.0.0.2]:9; see whether"));
  auto const closed_port = message_at(ip4(0x7f000001, 256), idle);
  CAPTURE(closed_port);
  CHECK(closed_port.starts_with("timed out: rank 0 cannot connect to rank 1 at [127.0.0.1]:256: "));
  CHECK(contains(closed_port, "Connection refused"));
  CHECK(contains(closed_port, "it has ended, and says why in its own log"));
  CHECK_FALSE(contains(closed_port, "interface"));
  parallel::descriptor connection;
  auto const silent =
      message_at(later_address, [&](impostor const& other) { connection = other.connect(); });
  CAPTURE(silent);
  CHECK(
      silent.starts_with("timed out: rank 1 is connected to rank 0 and has not greeted within "
                         "0.3 s: it may itself be waiting to connect to another rank"));
  auto const closed =
      message_at(later_address, [](impostor const& other) { static_cast<void>(other.connect()); });
  CAPTURE(closed);
  CHECK(
      closed.starts_with("aborted: rank 1 closed its connection to rank 0 before it had greeted"));
  sockaddr_in6 ipv6_address{};
  ipv6_address.sin6_family = AF_INET6;
  ipv6_address.sin6_addr = in6addr_loopback;
  auto const mixed_families = message_at(ipv6_address, idle);
  CAPTURE(mixed_families);
  CHECK(mixed_families.starts_with("refused: rank 0 listens at [127.0.0.1]:"));
  CHECK(contains(mixed_families, "one by IPv4 and the other by IPv6"));
}

TEST_CASE("gloo: a rank connects to the ranks that follow an unreachable one") {
  // Rank 0 waits for rank 1 in vain; rank 2 can reach rank 0.
  rendezvous_folder const folder;
  auto const address = ip4(0x7f000002, 9);
  auto const record = impostor::endpoint(&address, sizeof address).bytes() + std::string(16, ' ');
  gloo::detail::rendezvous(folder.path, 1, {}).write_records({record, record, record});
  std::vector<std::string> messages(3);
  std::vector<std::thread> threads;
  for (int const rank : {0, 2})
    threads.emplace_back([&, rank] {
      messages[static_cast<std::size_t>(rank)] = message_of([&] {
        gloo::communicator const comm(
            {.rank = rank, .ranks = 3, .rendezvous = folder.path, .deadline = 1s});
      });
    });
  for (auto& thread : threads) thread.join();
  for (int const rank : {0, 2}) {
    auto const& text = messages[static_cast<std::size_t>(rank)];
    CAPTURE(text);
    // If the other rank failed first, its connection is closed. No rank says that the other does
    // not come.
    CHECK_FALSE(contains(text, rank == 0 ? "connect to rank 2" : "connect to rank 0"));
    CHECK(contains(text, "to connect to rank 1, at [127.0.0.2]:9"));
  }
}

/// Connects to ranks that listen, as any process may, without being a rank.
struct stranger {
  /// Reads the address at which rank `rank` listens, as a port scan would find it.
  stranger(std::filesystem::path const& folder, int rank) {
    gloo::detail::rendezvous const rendezvous(folder, 0, {});  // the first record
    parallel::patience limit(60s);
    address = impostor::endpoint(rendezvous.read_record(rank, impostor::endpoint::size, limit));
  }
  /// Connects and sends as much of `text` as is accepted; holds -1 if nobody listens any more.
  [[nodiscard]] parallel::descriptor connect_and_send(std::string_view text) const {
    parallel::descriptor connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(connection.get(), address.get(), address.length()) != 0)
      return parallel::descriptor();
    if (!text.empty())
      static_cast<void>(
          ::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    return connection;
  }
  impostor::endpoint address;
};

TEST_CASE("gloo: strangers that connect before the ranks are dropped, and all ranks connect") {
  using gloo::detail::mutual_connections;
  for (bool const sealed : {false, true}) {
    CAPTURE(sealed);
    std::mutex mutex;
    std::vector<parallel::descriptor> silent;
    CHECK_NOTHROW(
        run(3,
            [&](gloo::communicator_options const& options) {
              if (options.rank > 0) {  // meanwhile rank 0 listens; the last rank listens later
                stranger const client(options.rendezvous, options.rank - 1);
                CHECK(client.connect_and_send("").get() >= 0);
                for (int i = 0; i < 100; ++i) {  // more than a rank holds at once
                  std::scoped_lock const lock(mutex);
                  silent.push_back(client.connect_and_send(i % 2 == 0 ? "" : "GET / HTTP/1.1\r\n"));
                  CHECK(silent.back().get() >= 0);
                }
                auto const wrong_greeting = [](int rank) {
                  return mutual_connections::hello(rank, std::string(1000, 'x'));
                };
                for (int const rank : {-1, 0, 1, 2, 3, 1 << 30})
                  CHECK(client.connect_and_send(wrong_greeting(rank)).get() >= 0);
                std::scoped_lock const lock(mutex);
                silent.push_back(client.connect_and_send(std::string(std::size_t{1} << 20, 'y')));
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

TEST_CASE("gloo: ranks connect while strangers keep connecting and send megabytes") {
  std::atomic<bool> is_finished = false;
  std::atomic<int> calls = 0;
  std::vector<std::thread> flood_threads;
  CHECK_NOTHROW(
      run(3,
          [&](gloo::communicator_options const& options) {
            if (options.rank == 2) {
              for (int const rank : {0, 1})
                flood_threads.emplace_back([&, client = stranger(options.rendezvous, rank)] {
                  std::string const megabyte(std::size_t{1} << 20, 'z');
                  for (std::vector<parallel::descriptor> connections; !is_finished; ++calls) {
                    connections.push_back(
                        client.connect_and_send(calls % 64 == 0 ? std::string_view(megabyte) : ""));
                    if (connections.size() > 50) connections.clear();
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
  is_finished = true;
  for (auto& thread : flood_threads) thread.join();
}

TEST_CASE("gloo: the error for a missing rank mentions strangers, which do not count as the rank") {
  rendezvous_folder const folder;
  auto const address = ip4(0x7f000002, 9);
  impostor const other(folder.path, address);
  std::thread client_thread([&] {
    stranger const client(folder.path, 0);
    CHECK(client.connect_and_send("").get() >= 0);
  });
  auto const message = message_of([&] {
    gloo::communicator const comm({.ranks = 2, .rendezvous = folder.path, .deadline = 1s});
  });
  client_thread.join();
  CAPTURE(message);
  CHECK(contains(message, "rank 0 waited 1 s to connect to rank 1, at [127.0.0.2]:9; see whether"));
  CHECK(contains(message,
                 "connections of others than this run's ranks were dropped, the last from "
                 "[127.0.0.1]:"));
}

TEST_CASE("gloo: a process without the key that answers for a rank is refused") {
  rendezvous_folder const folder;
  std::string message;
  for (int attempt = 0; attempt < 50 && !contains(message, "has reached"); ++attempt) {
    // precedes rank 0's port, which the system draws above 32767; a later attempt takes another one
    auto const port = 10000 + (::getpid() + attempt) % 20000;
    auto const address = ip4(0x7f000001, static_cast<std::uint16_t>(port));
    parallel::descriptor const listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(listener.get(), reinterpret_cast<sockaddr const*>(&address), sizeof address) != 0)
      continue;
    REQUIRE(::listen(listener.get(), 16) == 0);
    auto const bound_endpoint = impostor::endpoint::of_socket(listener.get());
    gloo::detail::rendezvous const rendezvous(folder.path, 1, {});
    auto const record = bound_endpoint.bytes() + gloo::detail::rendezvous::random_record();
    rendezvous.write_records({record, record});
    std::atomic<bool> is_finished = false;
    std::thread answering_thread([&] {
      for (pollfd event{listener.get(), POLLIN, 0}; !is_finished;) {
        if (::poll(&event, 1, 20) <= 0) continue;
        parallel::descriptor const connection(::accept(listener.get(), nullptr, nullptr));
        std::string const wrong_answer(1000, 'w');
        static_cast<void>(
            ::send(connection.get(), wrong_answer.data(), wrong_answer.size(), MSG_NOSIGNAL));
        std::string received(1000, ' ');
        static_cast<void>(::recv(connection.get(), received.data(), received.size(), 0));
      }
    });
    message = message_of([&] {
      gloo::communicator const comm({.ranks = 2, .rendezvous = folder.path, .deadline = 500ms});
    });
    is_finished = true;
    answering_thread.join();
    std::filesystem::remove(folder.path / "rank-0");
  }
  CAPTURE(message);
  CHECK(contains(message, "rank 0 has reached rank 1, at [127.0.0.1]:"));
  CHECK(contains(message, "and found somebody who does not have this run's key"));
}

}  // namespace gloo_test
