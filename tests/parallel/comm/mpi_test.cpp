// The MPI communicator, run under mpirun with 1 to 4 ranks; every rank runs all tests.
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
#include <parallel/support/files.hpp>

#include "parallel/comm/suite.hpp"
#include "parallel/comm/traffic.hpp"
#include "parallel/comm/tree.hpp"
#include "support/context_run.hpp"

namespace mpi_test {

using namespace parallel;
using namespace std::chrono_literals;
using test::comm_suite::check_all;
using test::comm_suite::message_of;

// Set by main.
mpi::environment* environment = nullptr;

using test::contains;

}  // namespace mpi_test

TEST_CASE("MPI: results have the bits of the serial reference, in many pieces and messages") {
  parallel::mpi::communicator comm(*mpi_test::environment,
                                   {.piece_bytes = 100, .message_bytes = 70});
  CHECK_NOTHROW(test::comm_suite::check_all(comm));
}

TEST_CASE("MPI: results have the same bits in one piece, checked and erased") {
  using namespace mpi_test;
  mpi::communicator plain(*environment);
  CHECK_NOTHROW(check_all(plain));
  any_communicator erased{checked{any_communicator{mpi::communicator{*environment}}}};
  CHECK_NOTHROW(check_all(erased, 100003));
}

TEST_CASE("MPI: counted bytes follow the ring formula") {
  using namespace mpi_test;
  using test::comm_traffic::check_traffic;
  CHECK_NOTHROW(check_traffic(mpi::communicator{*environment, {.piece_bytes = 8}}));
  CHECK_NOTHROW(check_traffic(checked{mpi::communicator{*environment}}));
}

TEST_CASE("MPI: sums by the tree have the bits of the serial reference, in pieces too") {
  using namespace mpi_test;
  using test::comm_tree::check_tree;
  CHECK_NOTHROW(check_tree(mpi::communicator{*environment, {.piece_bytes = 100}}));
  CHECK_NOTHROW(check_tree(checked{mpi::communicator{*environment}}));
}

TEST_CASE("MPI: a second environment is refused") {
  using namespace mpi_test;
  CHECK(contains(message_of([] { mpi::environment second; }), "MPI is already initialised"));
}

TEST_CASE("MPI: exact attention of sequences divided over ranks equals that of one rank") {
  using namespace mpi_test;
  using context_parallel::method;
  for (auto const attention_method : {method::ring, method::ulysses}) {
    any_communicator comm{mpi::communicator{*environment}};
    int const ranks = comm.size();
    test::context_problem const problem{
        .length = 6 * ranks, .width = 3 * ranks, .heads = ranks, .document = 9};
    auto const single_rank = test::attend_single_rank(problem);
    host::stream exchanges, returns;
    test::ring_attention layer{.method = attention_method, .heads = problem.heads};
    if (ranks > 1) layer.ranks = {comm, exchanges, returns};
    test::context_outcome outcome{std::vector<test::ring>(single_rank.y.size()),
                                  std::vector<test::ring>(single_rank.y.size())};
    test::run_attention_rank(layer, comm.rank(), ranks, problem, outcome);
    context_parallel::sequence_partition const partition(comm.rank(), ranks, problem.length);
    for (auto const row : test::rows_of(problem, partition))
      for (auto i = static_cast<std::size_t>(row * problem.width);
           i < static_cast<std::size_t>((row + 1) * problem.width); ++i) {
        CHECK(outcome.y[i] == single_rank.y[i]);
        CHECK(outcome.dx[i] == single_rank.dx[i]);
      }
  }
}

TEST_CASE("MPI: two communicators on two streams work side by side in any interleaving") {
  using namespace mpi_test;
  mpi::communicator first(*environment);
  mpi::communicator second(*environment);
  host::stream first_stream;
  host::stream second_stream;
  auto const ranks = static_cast<std::uint64_t>(first.size());
  std::vector<std::uint64_t> x(1013);
  std::vector<std::uint64_t> y(517);
  for (int step = 0; step < 30; ++step) {
    auto const own_rank = static_cast<std::uint64_t>(first.rank());
    std::fill(x.begin(), x.end(), own_rank + 1);
    std::fill(y.begin(), y.end(), own_rank * own_rank);
    auto reduce = [&] { return first.all_reduce(first_stream, std::span(x), reduction::sum); };
    auto maximum = [&] { return second.all_reduce(second_stream, std::span(y), reduction::max); };
    bool const is_swapped = (step + first.rank()) % 2 == 0;
    request a = is_swapped ? maximum() : reduce();
    request b = is_swapped ? reduce() : maximum();
    a.wait();
    b.wait();
    CHECK(x.back() == ranks * (ranks + 1) / 2);
    CHECK(y.back() == (ranks - 1) * (ranks - 1));
  }
}

TEST_CASE("MPI: several calls of one communicator may be in flight on two streams") {
  using namespace mpi_test;
  mpi::communicator comm(*environment, {.piece_bytes = 64});
  host::stream streams[2];
  std::vector<std::vector<std::int32_t>> x(20, std::vector<std::int32_t>(1000));
  std::vector<request> pending;
  for (std::size_t call = 0; call < x.size(); ++call) {
    std::fill(x[call].begin(), x[call].end(), static_cast<std::int32_t>(call));
    pending.push_back(comm.all_reduce(streams[call % 2], std::span(x[call]), reduction::sum));
  }
  for (auto& request : pending) request.wait();
  for (std::size_t call = 0; call < x.size(); ++call)
    CHECK(x[call][999] == static_cast<std::int32_t>(call) * comm.size());
}

TEST_CASE("MPI: checked ranks all learn which rank calls what") {
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

TEST_CASE(
    "MPI: checked ranks detect different reductions, and a barrier that meets an all-reduce") {
  using namespace mpi_test;
  if (environment->size() == 1) return;
  for (bool const compares_during_call : {true, false}) {  // erased ranks compare before the call
    CAPTURE(compares_during_call);
    auto const message_from = [&](auto const& call) {
      mpi::communicator plain(*environment);
      if (compares_during_call) {
        checked comm(std::move(plain));
        return message_of([&] { call(comm); });
      }
      checked comm(any_communicator(std::move(plain)));
      return message_of([&] { call(comm); });
    };
    auto const last = environment->size() - 1;
    // The message is no larger than MPI sends eagerly. A larger one that nobody receives would stay
    // pending, and mpi::environment ends all ranks rather than finalise.
    std::vector<float> x(700);
    host::stream s;
    auto const reduction_message = message_from([&](auto& comm) {
      auto const op = comm.rank() == last ? reduction::max : reduction::sum;
      comm.all_reduce(s, std::span(x), op).wait();
    });
    CHECK(contains(reduction_message, "ranks disagree in reduction (call 0 of this communicator)"));
    CHECK(contains(reduction_message, concat("rank ", last, ": all_reduce(max) of 700 f32")));
    host::stream t;
    auto const operation_message = message_from([&](auto& comm) {
      if (comm.rank() == last)
        comm.barrier(t).wait();
      else
        comm.all_reduce(t, std::span(x), reduction::sum).wait();
    });
    CHECK(contains(operation_message, "ranks disagree in operation"));
    CHECK(contains(operation_message, concat("rank ", last, ": barrier")));
  }
}

TEST_CASE("MPI: checked messages must agree in type and count") {
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

TEST_CASE("MPI: a message of another length is an error without checks too") {
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

TEST_CASE("MPI: a missing rank is named at the deadline and gets the error when it comes") {
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

TEST_CASE("MPI: a rank that waited to the deadline for a missing rank fails with timed_out") {
  using namespace mpi_test;
  if (environment->size() == 1) return;
  for (bool const compares_during_call : {true, false}) {  // erased ranks compare before the call
    CAPTURE(compares_during_call);
    mpi::communicator plain(*environment, {.deadline = 300ms});
    any_communicator comm = compares_during_call
                                ? any_communicator(checked(std::move(plain)))
                                : any_communicator(checked(any_communicator(std::move(plain))));
    host::stream s;
    std::vector<float> x(4);
    std::int32_t timed_out_ranks = 0;  // 1 where this rank itself timed out; summed over the ranks
    if (comm.rank() == comm.size() - 1) std::this_thread::sleep_for(600ms);
    try {
      comm.all_reduce(s, std::span(x), reduction::sum).wait();
    } catch (timed_out const&) {
      timed_out_ranks = 1;
    } catch (aborted const&) {
    }
    mpi::communicator second_communicator(*environment);
    host::stream t;
    second_communicator.all_reduce(t, std::span(&timed_out_ranks, 1), reduction::sum).wait();
    CHECK(timed_out_ranks >= 1);
  }
}

TEST_CASE("MPI: a rank that waits for a returned rank gets an error soon") {
  using namespace mpi_test;
  int const last = environment->size() - 1;
  if (last == 0) return;
  for (bool const is_group : {false, true}) {
    CAPTURE(is_group);
    mpi::communicator world(*environment, {.deadline = 20s});
    mpi::communicator comm =
        is_group ? world.split(0, "data") : mpi::communicator(std::move(world));
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

TEST_CASE("MPI: an abort wakes all ranks with its reason") {
  using namespace mpi_test;
  mpi::communicator comm(*environment);
  if (comm.size() == 1) return;
  host::stream s;
  if (comm.rank() == 1) comm.abort("the disk is full");
  std::vector<float> x(100);  // so small that MPI sends it eagerly
  auto const message = message_of([&] {
    for (;;) comm.all_reduce(s, std::span(x), reduction::sum).wait();
  });
  CHECK(message.starts_with("rank 1 failed: the disk is full"));
}

TEST_CASE(
    "MPI: abort and deadline reach ranks that wait in a subgroup, in messages and in all_to_all") {
  using namespace mpi_test;
  if (environment->size() == 1) return;
  for (auto const wait_kind : test::comm_suite::all_waits) {
    CAPTURE(static_cast<int>(wait_kind));
    CHECK_NOTHROW(test::comm_suite::check_abort(mpi::communicator(*environment), wait_kind));
    CHECK_NOTHROW(
        test::comm_suite::check_abort(checked(mpi::communicator(*environment)), wait_kind));
    CHECK_NOTHROW(test::comm_suite::check_reason(mpi::communicator(*environment), wait_kind));
    CHECK_NOTHROW(test::comm_suite::check_deadline(
        mpi::communicator(*environment, {.deadline = 500ms}), wait_kind, "0.5"));
  }
  CHECK_NOTHROW(test::comm_suite::check_abort_polling(mpi::communicator(*environment)));
}

TEST_CASE("MPI: ranks that wait for each other report at the deadline which waits in which call") {
  using namespace mpi_test;
  int const n = environment->size();
  if (n == 1) return;
  for (bool const is_checked : {false, true}) {
    mpi::communicator plain(*environment, {.deadline = 500ms});
    int const own_rank = plain.rank();
    int const next = (own_rank + 1) % n;
    any_communicator comm = is_checked ? any_communicator(checked(std::move(plain)))
                                       : any_communicator(std::move(plain));
    host::stream s;
    std::vector<float> x(4);
    auto const message = message_of([&] { comm.recv(s, std::span(x), next).wait(); });
    CAPTURE(message);
    auto const call = concat("recv of 4 f32 from rank ", next, ", tag 0 at mpi_test.cpp:");
    auto const waiting_rank = concat("rank ", own_rank, " waited ");
    CHECK(contains(message, call));  // names this rank's call, also when another timed out first
    CHECK(contains(message, waiting_rank));
  }
}

int main(int argc, char** argv) {
  parallel::mpi::environment environment;
  mpi_test::environment = &environment;
  return doctest::Context(argc, argv).run();
}
