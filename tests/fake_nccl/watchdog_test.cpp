// A thread that waits inside a call of CUDA keeps every other call of its process waiting: the
// watchdog ends what it waits for all the same, or says that it cannot.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <parallel/conformance/values.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/ranks.hpp"
#include "parallel/support/files.hpp"

namespace fake_nccl_watchdog_test {

using parallel::reduction;
using parallel::conformance::message_of;
using test::contains;
using namespace std::chrono_literals;

/// Two ranks, of which rank 0 exchanges and then stands in a call of CUDA's, which waits for the
/// exchange; rank 1 does `instead`. What each is told.
std::vector<std::string> told(std::function<void(parallel::nccl::communicator&)> const& instead,
                              parallel::nccl::communicator_options const& how,
                              fake_nccl::options const& library = {}) {
  fake_cuda::restart({.devices = 2, .peers = false, .context_lock = true});
  fake_nccl::restart(library);
  std::vector<std::string> out(2);
  static_cast<void>(message_of([&] {
    fake_nccl::ranks(how)(2, [&](auto& comm) {
      auto const device = fake_cuda::current_gpu();
      auto x = device.template allocate_zeroed<float>(8), y = device.template allocate<float>(8);
      parallel::cuda::stream s{parallel::comm_options<parallel::nccl::communicator>(device)};
      comm.barrier(s).wait();  // NCCL has connected the ranks
      auto const rank = static_cast<std::size_t>(comm.rank());
      out[rank] = message_of([&] {
        if (rank == 1) return instead(comm);
        auto request = comm.all_reduce(s, x.span(), reduction::sum);
        y = {};  // cudaFree waits for all that the GPU was given, and holds its context
        request.wait();
      });
    });
  }));
  return out;
}

void until_aborted(parallel::nccl::communicator& comm) {
  while (!comm.abort_reason()) std::this_thread::sleep_for(5ms);
  comm.abort("it came late");
}

TEST_CASE("a deadline ends an exchange for which a call of CUDA waits") {
  auto const all = told(until_aborted, {.deadline = 300ms});
  CHECK(contains(all[0],
                 "rank 0 failed: rank 0 has waited 0.3 s for call 1, all_reduce(sum) of 8 f32"));
  CHECK(contains(all[0], "CUDA has not answered"));
  CHECK(fake_nccl::happened().failures.empty());
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("another rank's notice does, too") {
  auto const all = told(
      [](auto& comm) {
        std::this_thread::sleep_for(100ms);
        comm.abort("the disk is full");
      },
      {.deadline = 60s});
  CHECK(all[0] == "rank 1 failed: the disk is full");
  CHECK(fake_nccl::happened().failures.empty());
  CHECK(fake_nccl::alive() == 0);
}

/// What is said when communicators do not end.
struct sentences {
  parallel::nccl::communicator_options how = {
      .deadline = 200ms, .grace = 200ms, .when_stuck = [this](std::string const& sentence) {
        std::scoped_lock const lock(mutex);
        all.push_back(sentence);
      }};
  std::mutex mutex;
  std::vector<std::string> all;
};
/// After which the fake NCCL ends what stands still, so that the test comes to its end.
constexpr auto soon = 1500ms;

TEST_CASE("an abort that does not return is said, with the reason, and the other ranks know") {
  sentences said;
  auto const all =
      told(until_aborted, said.how, {.patience = soon, .fault = fake_nccl::fault::slow_abort});
  REQUIRE(said.all.size() == 1);
  CHECK(contains(said.all[0], "rank 0 failed: rank 0 has waited 0.2 s for call 1, all_reduce"));
  CHECK(contains(said.all[0],
                 "; 0.2 s later the NCCL communicators of rank 0 have not ended: ncclCommAbort has "
                 "not returned"));
  CHECK(contains(all[0], "rank 0 has waited 0.2 s"));
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("so is a thread that does not come out of NCCL, without whose return nothing ends") {
  sentences said;
  fake_cuda::restart({.devices = 2, .peers = false, .context_lock = true});
  fake_nccl::restart({.patience = soon});
  static_cast<void>(message_of([&] {
    fake_nccl::ranks(said.how)(2, [&](auto& comm) {
      auto const device = fake_cuda::current_gpu();
      auto x = device.template allocate_zeroed<float>(8), y = device.template allocate<float>(8);
      parallel::cuda::stream s{parallel::comm_options<parallel::nccl::communicator>(device)};
      comm.barrier(s).wait();
      if (comm.rank() == 1) return until_aborted(comm);
      auto request = comm.all_reduce(s, x.span(), reduction::sum);
      std::jthread frees([&] { y = {}; });
      std::this_thread::sleep_for(50ms);
      auto const part = comm.split(parallel::coloring::single_color(), "tensor");
    });
  }));
  REQUIRE(!said.all.empty());
  CHECK(contains(said.all[0], "rank 0 failed: rank 0 has waited 0.2 s for call 1, all_reduce"));
  CHECK(contains(said.all[0], "of rank 0 have not ended: ncclCommSplit has not returned"));
  CHECK(fake_nccl::alive() == 0);
}

TEST_CASE("a rank whose end waits too long for another's says so, and ends that one's") {
  fake_cuda::restart({.devices = 2, .peers = false});
  fake_nccl::restart({.patience = 60s});
  std::string heard;
  CHECK_NOTHROW(fake_nccl::ranks({.deadline = 200ms})(2, [&](auto& comm) {
    parallel::cuda::stream s{
        parallel::comm_options<parallel::nccl::communicator>(fake_cuda::current_gpu())};
    comm.barrier(s).wait();
    if (comm.rank() == 0) return;
    while (!comm.abort_reason()) std::this_thread::sleep_for(5ms);
    heard = *comm.abort_reason();
  }));
  CHECK(heard ==
        "rank 0 failed: rank 0 has waited 0.2 s in ncclCommDestroy; another rank of its machine "
        "has not ended its communicator");
  CHECK(fake_nccl::happened().failures.empty());
  CHECK(fake_nccl::alive() == 0);
}

/// Whose notice comes while its watchdog goes.
struct late_board final : parallel::nccl::notice_board {
  std::atomic<bool> is_read = false;
  void post(int, std::string const&) override {}
  [[nodiscard]] std::optional<std::string> read() override {
    is_read = true;
    std::this_thread::sleep_for(200ms);
    return "rank 1 failed: the disk is full";
  }
};

TEST_CASE("a notice that comes when nothing is left to end keeps nobody waiting") {
  fake_cuda::restart({.devices = 1});
  sentences said;
  auto const board = std::make_shared<late_board>();
  parallel::nccl::gate gate;
  {
    parallel::nccl::watchdog const one(
        gate, 0, 0, said.how, board,
        {.poll = [] {}, .overdue = [] { return std::string(); }, .end_all = [] {}});
    while (!board->is_read) std::this_thread::yield();
    std::this_thread::sleep_for(50ms);
  }
  CHECK(said.all.empty());
  CHECK(!gate.is_closed());
}

TEST_CASE("who says nothing about it hears it on standard error, and the process ends") {
  test::temporary_folder const folder;
  auto const said = folder.path() / "said";
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int const file = ::open(said.c_str(), O_WRONLY | O_CREAT, 0600);
    if (::dup2(file, STDERR_FILENO) < 0) ::_exit(2);
    parallel::nccl::gate gate;
    parallel::nccl::watchdog const one(gate, 3, 0, {.grace = 50ms}, nullptr,
                                       {.poll = [] {},
                                        .overdue = [] { return std::string("it waits for rank 4"); },
                                        .end_all = [] { std::this_thread::sleep_for(1h); }});
    std::this_thread::sleep_for(1h);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == EXIT_FAILURE);
  CHECK(contains(test::read_all(said),
                 "error: rank 3 failed: it waits for rank 4; 0.05 s later the NCCL communicators "
                 "of rank 3 have not ended"));
}

}  // namespace fake_nccl_watchdog_test
