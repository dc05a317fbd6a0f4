// Run under mpirun with 1 to 4 ranks; every rank runs all tests.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <parallel/comm/aborted.hpp>
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/mpi/communicator.hpp>
#include <parallel/core/failures.hpp>

#include "parallel/comm/suite.hpp"
#include "parallel/comm/traffic.hpp"
#include "parallel/comm/tree.hpp"
#include "support/context_run.hpp"

namespace mpi_test {

using namespace parallel;
using namespace std::chrono_literals;
using test::comm_suite::check_all;
using test::comm_suite::message_of;

// The environment is made in main and handed to the tests here.
mpi::environment* environment = nullptr;

inline bool contains(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace mpi_test

TEST_CASE("MPI gives the bits of the serial reference, in many pieces and messages") {
  parallel::mpi::communicator comm(*mpi_test::environment,
                                   {.piece_bytes = 100, .message_bytes = 70});
  CHECK_NOTHROW(test::comm_suite::check_all(comm));
}

TEST_CASE("MPI gives the same bits in one piece, checked and erased") {
  using namespace mpi_test;
  mpi::communicator plain(*environment);
  CHECK_NOTHROW(check_all(plain));
  any_communicator erased{checked{any_communicator{mpi::communicator{*environment}}}};
  CHECK_NOTHROW(check_all(erased, 100003));
}

TEST_CASE("MPI counts the bytes of its messages, as many as a ring sends") {
  using namespace mpi_test;
  using test::comm_traffic::check_traffic;
  CHECK_NOTHROW(check_traffic(mpi::communicator{*environment, {.piece_bytes = 8}}));
  CHECK_NOTHROW(check_traffic(checked{mpi::communicator{*environment}}));
}

TEST_CASE("MPI sums by the tree as the serial reference does, in pieces too") {
  using namespace mpi_test;
  using test::comm_tree::check_tree;
  CHECK_NOTHROW(check_tree(mpi::communicator{*environment, {.piece_bytes = 100}}));
  CHECK_NOTHROW(check_tree(checked{mpi::communicator{*environment}}));
}

TEST_CASE("MPI is initialised once") {
  using namespace mpi_test;
  CHECK(contains(message_of([] { mpi::environment second; }), "MPI is already initialised"));
}

TEST_CASE("exact attention of sequences divided over MPI ranks is that of one rank") {
  using namespace mpi_test;
  using context_parallel::method;
  for (auto const how : {method::ring, method::ulysses}) {
    any_communicator comm{mpi::communicator{*environment}};
    int const ranks = comm.size();
    test::context_problem const what{
        .length = 6 * ranks, .width = 3 * ranks, .heads = ranks, .document = 9};
    auto const alone = test::attend_single_rank(what);
    host::stream exchanges, back;
    test::ring_attention layer{.method = how, .heads = what.heads};
    if (ranks > 1) layer.ranks = {comm, exchanges, back};
    test::context_outcome out{std::vector<test::ring>(alone.y.size()),
                              std::vector<test::ring>(alone.y.size())};
    test::run_attention_rank(layer, comm.rank(), ranks, what, out);
    context_parallel::sequence_partition const part(comm.rank(), ranks, what.length);
    for (auto const row : test::rows_of(what, part))
      for (auto i = static_cast<std::size_t>(row * what.width);
           i < static_cast<std::size_t>((row + 1) * what.width); ++i) {
        CHECK(out.y[i] == alone.y[i]);
        CHECK(out.dx[i] == alone.dx[i]);
      }
  }
}

TEST_CASE("two MPI communicators on two streams work side by side in any interleaving") {
  using namespace mpi_test;
  mpi::communicator first(*environment);
  mpi::communicator second(*environment);
  host::stream one;
  host::stream two;
  auto const ranks = static_cast<std::uint64_t>(first.size());
  std::vector<std::uint64_t> x(1013);
  std::vector<std::uint64_t> y(517);
  for (int step = 0; step < 30; ++step) {
    auto const me = static_cast<std::uint64_t>(first.rank());
    std::fill(x.begin(), x.end(), me + 1);
    std::fill(y.begin(), y.end(), me * me);
    auto reduce = [&] { return first.all_reduce(one, std::span(x), reduction::sum); };
    auto maximum = [&] { return second.all_reduce(two, std::span(y), reduction::max); };
    bool const swapped = (step + first.rank()) % 2 == 0;
    request a = swapped ? maximum() : reduce();
    request b = swapped ? reduce() : maximum();
    a.wait();
    b.wait();
    CHECK(x.back() == ranks * (ranks + 1) / 2);
    CHECK(y.back() == (ranks - 1) * (ranks - 1));
  }
}

TEST_CASE("several calls of one MPI communicator may be in flight on two streams") {
  using namespace mpi_test;
  mpi::communicator comm(*environment, {.piece_bytes = 64});
  host::stream streams[2];
  std::vector<std::vector<std::int32_t>> x(20, std::vector<std::int32_t>(1000));
  std::vector<request> pending;
  for (std::size_t k = 0; k < x.size(); ++k) {
    std::fill(x[k].begin(), x[k].end(), static_cast<std::int32_t>(k));
    pending.push_back(comm.all_reduce(streams[k % 2], std::span(x[k]), reduction::sum));
  }
  for (auto& one : pending) one.wait();
  for (std::size_t k = 0; k < x.size(); ++k)
    CHECK(x[k][999] == static_cast<std::int32_t>(k) * comm.size());
}

TEST_CASE("checked MPI ranks are all told who calls what") {
  using namespace mpi_test;
  checked<mpi::communicator> comm{mpi::communicator{*environment}};
  if (comm.size() == 1) return;
  host::stream s;
  std::vector<float> x(comm.rank() == 1 ? 3 : 5);
  auto const message = message_of([&] { comm.all_reduce(s, std::span(x), reduction::sum).wait(); });
  CHECK(contains(message, "ranks disagree in count (call 0 of this communicator)"));
  CHECK(contains(message, "rank 1: all_reduce(sum) of 3 f32 at mpi_test.cpp:"));
  CHECK(contains(message, ": all_reduce(sum) of 5 f32 at mpi_test.cpp:"));
}

TEST_CASE("what would move as many bytes, and what would wait for ever, are told as well") {
  using namespace mpi_test;
  if (environment->size() == 1) return;
  for (bool const beside : {true, false}) {  // erased, ranks compare before the call
    CAPTURE(beside);
    auto const all = [&](auto const& call) {
      mpi::communicator plain(*environment);
      if (beside) {
        checked comm(std::move(plain));
        return message_of([&] { call(comm); });
      }
      checked comm(any_communicator(std::move(plain)));
      return message_of([&] { call(comm); });
    };
    auto const last = environment->size() - 1;
    // No more than MPI sends without asking: what it was asked for and nobody took would stay with
    // it, and mpi::environment ends all ranks rather than finalise.
    std::vector<float> x(700);
    host::stream s;
    auto const other = all([&](auto& comm) {
      auto const how = comm.rank() == last ? reduction::max : reduction::sum;
      comm.all_reduce(s, std::span(x), how).wait();
    });
    CHECK(contains(other, "ranks disagree in reduction (call 0 of this communicator)"));
    CHECK(contains(other, concat("rank ", last, ": all_reduce(max) of 700 f32")));
    host::stream t;
    auto const nothing = all([&](auto& comm) {
      if (comm.rank() == last)
        comm.barrier(t).wait();
      else
        comm.all_reduce(t, std::span(x), reduction::sum).wait();
    });
    CHECK(contains(nothing, "ranks disagree in operation"));
    CHECK(contains(nothing, concat("rank ", last, ": barrier")));
  }
}

TEST_CASE("checked MPI messages must agree in type and count") {
  using namespace mpi_test;
  checked<mpi::communicator> comm{mpi::communicator{*environment}};
  if (comm.size() == 1) return;
  host::stream s;
  std::vector<float> x(comm.rank() == 0 ? 4 : 6);
  std::string message;
  if (comm.rank() == 0)
    message = message_of([&] {
      comm.send(s, std::span(x), 1).wait();  // may be on its way before the receiver refuses it
      comm.recv(s, std::span(x), 1).wait();
    });
  else if (comm.rank() == 1)
    message = message_of([&] { comm.recv(s, std::span(x), 0).wait(); });
  else
    message = message_of([&] { comm.recv(s, std::span(x), 0).wait(); });  // woken
  CHECK(
      contains(message, "sender and receiver disagree in count: rank 0: send of 4 f32 to rank 1"));
  CHECK(contains(message, "rank 1: recv of 6 f32 from rank 0"));
}

TEST_CASE("messages of another length are an error without checks too") {
  using namespace mpi_test;
  for (std::size_t const sent : {2, 9}) {
    mpi::communicator comm(*environment);
    if (comm.size() == 1) return;
    host::stream s;
    std::vector<float> x(comm.rank() == 0 ? sent : 4);
    if (comm.rank() == 0) CHECK_NOTHROW(comm.send(s, std::span(x), 1).wait());
    if (comm.rank() == 1) {
      auto const message = message_of([&] { comm.recv(s, std::span(x), 0).wait(); });
      CHECK(contains(message, "recv of 4 f32 from rank 0, tag 0 at mpi_test.cpp:"));
      CHECK(contains(message, sent == 2
                                  ? "rank 0 sent fewer bytes than the 16 that rank 1 expects"
                                  : "rank 0 sent more bytes than the 16 that rank 1 expects"));
    }
  }
}

TEST_CASE("a missing MPI rank is named at the deadline and hears of it when it comes") {
  using namespace mpi_test;
  mpi::communicator comm(*environment, {.deadline = 300ms});
  if (comm.size() == 1) return;
  checked<mpi::communicator> checker(std::move(comm));
  host::stream s;
  std::vector<float> x(4);
  auto const last = checker.size() - 1;
  if (checker.rank() == last) std::this_thread::sleep_for(600ms);
  auto const message =
      message_of([&] { checker.all_reduce(s, std::span(x), reduction::sum).wait(); });
  CHECK(contains(message, "all_reduce(sum) of 4 f32 at mpi_test.cpp:"));
  CHECK(contains(message, "waited 0.3 s for rank " + std::to_string(last)));
  if (checker.size() > 2) CHECK(contains(message, "came: all_reduce(sum) of 4 f32"));
}

TEST_CASE("who waited for a missing MPI rank to the deadline fails with timed_out, not its echo") {
  using namespace mpi_test;
  if (environment->size() == 1) return;
  for (bool const beside : {true, false}) {  // erased, ranks compare before the call
    CAPTURE(beside);
    mpi::communicator plain(*environment, {.deadline = 300ms});
    any_communicator comm = beside ? any_communicator(checked(std::move(plain)))
                                   : any_communicator(checked(any_communicator(std::move(plain))));
    host::stream s;
    std::vector<float> x(4);
    std::int32_t waited = 0;  // whether this rank knows the cause
    if (comm.rank() == comm.size() - 1) std::this_thread::sleep_for(600ms);
    try {
      comm.all_reduce(s, std::span(x), reduction::sum).wait();
    } catch (timed_out const&) {
      waited = 1;
    } catch (aborted const&) {
    }
    mpi::communicator others(*environment);
    host::stream t;
    others.all_reduce(t, std::span(&waited, 1), reduction::sum).wait();
    CHECK(waited >= 1);
  }
}

TEST_CASE("who waits for an MPI rank that has returned is told soon") {
  using namespace mpi_test;
  int const last = environment->size() - 1;
  if (last == 0) return;
  for (bool const part : {false, true}) {
    CAPTURE(part);
    mpi::communicator whole(*environment, {.deadline = 20s});
    mpi::communicator comm = part ? whole.split(0, "data") : mpi::communicator(std::move(whole));
    host::stream s;
    std::vector<float> x(4);
    comm.all_reduce(s, std::span(x), reduction::sum).wait();
    if (comm.rank() == last) continue;
    auto const message =
        message_of([&] { comm.all_reduce(s, std::span(x), reduction::sum).wait(); });
    CAPTURE(message);
    CHECK(message.starts_with(concat("rank ", last,
                                     " has returned from its program or ended its "
                                     "communicator, but rank ")));
    CHECK(contains(message, " waits for it in all_reduce(sum) of 4 f32"));
    CHECK(contains(message, "(call 1); all ranks must make the same calls in the same order"));
  }
}

TEST_CASE("an abort wakes all MPI ranks with its reason") {
  using namespace mpi_test;
  mpi::communicator comm(*environment);
  if (comm.size() == 1) return;
  host::stream s;
  if (comm.rank() == 1) comm.abort("the disk is full");
  std::vector<float> x(100);  // so small that MPI can let go of it
  auto const message = message_of([&] {
    for (;;) comm.all_reduce(s, std::span(x), reduction::sum).wait();
  });
  CHECK(message.starts_with("rank 1 failed: the disk is full"));
}

TEST_CASE("abort and deadline reach MPI ranks in a part, in messages and in all_to_all") {
  using namespace mpi_test;
  if (environment->size() == 1) return;
  for (auto const how : test::comm_suite::all_waits) {
    CAPTURE(static_cast<int>(how));
    CHECK_NOTHROW(test::comm_suite::check_abort(mpi::communicator(*environment), how));
    CHECK_NOTHROW(test::comm_suite::check_abort(checked(mpi::communicator(*environment)), how));
    CHECK_NOTHROW(test::comm_suite::check_reason(mpi::communicator(*environment), how));
    CHECK_NOTHROW(test::comm_suite::check_deadline(
        mpi::communicator(*environment, {.deadline = 500ms}), how, "0.5"));
  }
  CHECK_NOTHROW(test::comm_suite::check_heard(mpi::communicator(*environment)));
}

TEST_CASE("MPI ranks that wait for each other say at the deadline who waits where for whom") {
  using namespace mpi_test;
  int const n = environment->size();
  if (n == 1) return;
  for (bool const check : {false, true}) {
    mpi::communicator plain(*environment, {.deadline = 500ms});
    int const me = plain.rank();
    int const next = (me + 1) % n;
    any_communicator comm =
        check ? any_communicator(checked(std::move(plain))) : any_communicator(std::move(plain));
    host::stream s;
    std::vector<float> x(4);
    auto const message = message_of([&] { comm.recv(s, std::span(x), next).wait(); });
    CAPTURE(message);
    auto const call = concat("recv of 4 f32 from rank ", next, ", tag 0 at mpi_test.cpp:");
    auto const waited = concat("rank ", me, " waited ");
    CHECK(contains(message, call));  // of this rank, also when another gave up first
    CHECK(contains(message, waited));
  }
}

int main(int argc, char** argv) {
  parallel::mpi::environment environment;
  mpi_test::environment = &environment;
  return doctest::Context(argc, argv).run();
}
