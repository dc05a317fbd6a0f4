// A thread that waits inside a CUDA call blocks every other CUDA call of its process. The watchdog
// must end the exchange for which the thread waits all the same, or say that it cannot.
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

/// Runs two ranks: rank 0 begins an exchange and then blocks in a CUDA call, which waits for the
/// exchange; rank 1 runs `other_rank`. Returns the message of each rank's exception.
std::vector<std::string> messages_of(
    std::function<void(parallel::nccl::communicator&)> const& other_rank,
    parallel::nccl::communicator_options const& options, fake_nccl::options const& library = {}) {
  fake_cuda::restart({.devices = 2, .peers = false, .context_lock = true});
  fake_nccl::restart(library);
  std::vector<std::string> out(2);
  static_cast<void>(message_of([&] {
    fake_nccl::ranks(options)(2, [&](auto& comm) {
      fake_nccl::rank_gpu gpu;
      auto y = gpu.device.allocate<float>(8);
      comm.barrier(gpu.s).wait();  // connects the ranks
      auto const rank = static_cast<std::size_t>(comm.rank());
      out[rank] = message_of([&] {
        if (rank == 1) return other_rank(comm);
        auto request = comm.all_reduce(gpu.s, gpu.x.span(), reduction::sum);
        y = {};  // cudaFree waits for all work of the GPU and holds its context
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

TEST_CASE("watchdog: a deadline ends an exchange for which a CUDA call waits") {
  auto const messages = messages_of(until_aborted, {.deadline = 300ms});
  CHECK(contains(messages[0],
                 "rank 0 failed: rank 0 has waited 0.3 s for call 1, all_reduce(sum) of 8 f32"));
  CHECK(contains(messages[0], "CUDA has not answered"));
  fake_nccl::check_ended();
}

TEST_CASE("watchdog: another rank's notice ends an exchange for which a CUDA call waits") {
  auto const messages = messages_of(
      [](auto& comm) {
        std::this_thread::sleep_for(100ms);
        comm.abort("the disk is full");
      },
      {.deadline = 60s});
  CHECK(messages[0] == "rank 1 failed: the disk is full");
  fake_nccl::check_ended();
}

/// Options whose callback collects the reports about communicators that do not end.
struct stuck_reports {
  parallel::nccl::communicator_options options = {
      .deadline = 200ms, .grace = 200ms, .when_stuck = [this](std::string const& sentence) {
        std::scoped_lock const lock(mutex);
        sentences.push_back(sentence);
      }};
  std::mutex mutex;
  std::vector<std::string> sentences;
};
/// The time after which the fake NCCL ends a deadlock, so that the test itself ends.
constexpr auto deadlock_patience = 1500ms;

TEST_CASE("watchdog: an abort that does not return is reported, and other ranks get the reason") {
  stuck_reports reports;
  auto const messages =
      messages_of(until_aborted, reports.options,
                  {.patience = deadlock_patience, .fault = fake_nccl::fault::slow_abort});
  REQUIRE(reports.sentences.size() == 1);
  CHECK(contains(reports.sentences[0],
                 "rank 0 failed: rank 0 has waited 0.2 s for call 1, all_reduce"));
  CHECK(contains(reports.sentences[0],
                 "; 0.2 s later the NCCL communicators of rank 0 have not ended: ncclCommAbort has "
                 "not returned"));
  CHECK(contains(messages[0], "rank 0 has waited 0.2 s"));
  CHECK(fake_nccl::live_communicators() == 0);
}

TEST_CASE("watchdog: a thread that does not return from NCCL is reported") {
  stuck_reports reports;
  fake_cuda::restart({.devices = 2, .peers = false, .context_lock = true});
  fake_nccl::restart({.patience = deadlock_patience});
  static_cast<void>(message_of([&] {
    fake_nccl::ranks(reports.options)(2, [&](auto& comm) {
      fake_nccl::rank_gpu gpu;
      auto y = gpu.device.allocate<float>(8);
      comm.barrier(gpu.s).wait();
      if (comm.rank() == 1) return until_aborted(comm);
      auto request = comm.all_reduce(gpu.s, gpu.x.span(), reduction::sum);
      std::jthread frees([&] { y = {}; });
      std::this_thread::sleep_for(50ms);
      auto const part = comm.split(parallel::coloring::single_color(), "tensor");
    });
  }));
  REQUIRE(!reports.sentences.empty());
  CHECK(contains(reports.sentences[0],
                 "rank 0 failed: rank 0 has waited 0.2 s for call 1, all_reduce"));
  CHECK(contains(reports.sentences[0], "of rank 0 have not ended: ncclCommSplit has not returned"));
  CHECK(fake_nccl::live_communicators() == 0);
}

TEST_CASE("watchdog: a rank that waits too long in ncclCommDestroy says so and aborts the others") {
  fake_cuda::restart({.devices = 2, .peers = false});
  fake_nccl::restart({.patience = 60s});
  std::string heard;
  CHECK_NOTHROW(fake_nccl::ranks({.deadline = 200ms})(2, [&](auto& comm) {
    fake_nccl::rank_gpu gpu;
    comm.barrier(gpu.s).wait();
    if (comm.rank() == 0) return;
    while (!comm.abort_reason()) std::this_thread::sleep_for(5ms);
    heard = *comm.abort_reason();
  }));
  CHECK(heard ==
        "rank 0 failed: rank 0 has waited 0.2 s in ncclCommDestroy; another rank of its machine "
        "has not ended its communicator");
  fake_nccl::check_ended();
}

/// A board whose notice arrives while the watchdog is being destroyed.
struct late_board final : parallel::nccl::notice_board {
  std::atomic<bool> is_read = false;
  void post(int, std::string const&) override {}
  [[nodiscard]] std::optional<std::string> read() override {
    is_read = true;
    std::this_thread::sleep_for(200ms);
    return "rank 1 failed: the disk is full";
  }
};

TEST_CASE("watchdog: a notice during its destruction ends nothing and is not reported") {
  fake_cuda::restart({.devices = 1});
  stuck_reports reports;
  auto const board = std::make_shared<late_board>();
  parallel::nccl::gate gate;
  {
    parallel::nccl::watchdog const one(
        gate, 0, 0, reports.options, board,
        {.poll = [] {}, .overdue = [] { return std::string(); }, .end_all = [] {}});
    while (!board->is_read) std::this_thread::yield();
    std::this_thread::sleep_for(50ms);
  }
  CHECK(reports.sentences.empty());
  CHECK(!gate.is_closed());
}

TEST_CASE("watchdog: without a callback a stuck rank is reported on stderr, and the process ends") {
  test::temporary_folder const folder;
  auto const output = folder.path() / "said";
  auto const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int const file = ::open(output.c_str(), O_WRONLY | O_CREAT, 0600);
    if (::dup2(file, STDERR_FILENO) < 0) ::_exit(2);
    parallel::nccl::gate gate;
    parallel::nccl::watchdog const one(
        gate, 3, 0, {.grace = 50ms}, nullptr,
        {.poll = [] {},
         .overdue = [] { return std::string("it waits for rank 4"); },
         .end_all = [] { std::this_thread::sleep_for(1h); }});
    std::this_thread::sleep_for(1h);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == EXIT_FAILURE);
  CHECK(contains(test::read_all(output),
                 "error: rank 3 failed: it waits for rank 4; 0.05 s later the NCCL communicators "
                 "of rank 3 have not ended"));
}

}  // namespace fake_nccl_watchdog_test
