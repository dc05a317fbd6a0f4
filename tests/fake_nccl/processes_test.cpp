// The product's trainer over NCCL's classes where every rank is a process, as `launch` and mpirun
// start them: the ranks agree by gloo and exchange by the fake NCCL, each with a fake GPU. A rank
// is this program again, which then runs the one test case that is skipped otherwise.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/checked.hpp>
#include <parallel/comm/gloo/communicator.hpp>
#include <parallel/comm/nccl/connect.hpp>
#include <parallel/conformance/values.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/compared_runs.hpp"
#include "fake_nccl/fake_nccl.hpp"

namespace fake_nccl_processes_test {
namespace {

using namespace tiny_run;
using fake_nccl::configuration;
using parallel::any_communicator;
using parallel::concat;

std::vector<grid> const layouts{
    {.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2, .sequence_parallel = true}},
    {.zero_stage = 1, .data = 2, .parallelism = {.pipeline = 2, .schedule = "zb-h1"}},
    {.zero_stage = 2, .data = 2, .parallelism = {.context = 2}},
    {.data = 8},
    {.zero_stage = 2, .data = 2, .parallelism = {.tensor = 2, .pipeline = 2, .schedule = "gpipe"}},
};

/// The task of a rank, which it reads from its environment.
struct rank_task {
  int rank = 0, layout = 0, batches = 2, seconds = 60;  // seconds: the deadline
  fs::path folder = {};                                 // of the run
};

constexpr char const* const variables[] = {"FAKE_RANK", "FAKE_LAYOUT", "FAKE_BATCHES",
                                           "FAKE_SECONDS", "FAKE_FOLDER"};

train_config config_of(run_files const& files, rank_task const& task) {
  auto const& layout = layouts[static_cast<std::size_t>(task.layout)];
  auto config = with_layout(configuration(files, task.batches), layout);
  config.data.global_train_batch_size = 8;
  config.data.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {2, time_unit::batch};
  config.checkpoint.save_folder = task.folder / "saved";
  config.output.metrics_file = task.folder / "metrics.jsonl";
  config.execution.cuda_graphs = task.layout % 2 == 0;
  config.run.deadlines.first_step = config.run.deadlines.step = task.seconds;
  return config;
}

/// Trains as one rank; returns the message of its exception and all failures.
std::string train_as(rank_task const& task) {
  run_files const files;
  auto const config = config_of(files, task);
  int const ranks = layouts[static_cast<std::size_t>(task.layout)].ranks();
  fake_cuda::restart({.devices = ranks,
                      .peers = false,
                      .seed = static_cast<std::uint64_t>(10 * task.layout + task.rank)});
  fake_nccl::restart({.patience = std::chrono::minutes(1), .process_folder = task.folder / "nccl"});
  parallel::shared_deadline const deadline = std::chrono::seconds(task.seconds);
  auto const message = parallel::conformance::message_of([&] {
    any_communicator control(
        parallel::checked(parallel::gloo::communicator({.rank = task.rank,
                                                        .ranks = ranks,
                                                        .rendezvous = task.folder / "gloo",
                                                        .deadline = deadline})));
    try {
      parallel::cuda::device device({.device = task.rank, .graphs = config.execution.cuda_graphs});
      parallel::nccl::any_communicator exchanges(
          parallel::nccl::connect(control, device, {.deadline = deadline, .least_window_bytes = 0})
              .value());
      auto const plan = mpt::plan_run<float>(config, ranks);
      auto const parts = tiny_run::parts_of(config);
      mpt::run_hooks hooks{.deadline = deadline};
      hooks.stop_asked = [&task] {
        if (fs::exists(task.folder / "pause")) {
          test::write_all(task.folder / concat("paused", task.rank), "");
          while (fs::exists(task.folder / "pause"))
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
        return false;
      };
      mpt::run_training<float>(config, control, exchanges, device, plan, parts, hooks);
    } catch (std::exception const& problem) {
      control.abort(problem.what());
      throw;
    }
  });
  auto out = message;
  for (auto const& one : fake_cuda::history().failures) out += concat("; fake CUDA: ", one);
  for (auto const& one : fake_nccl::history().failures) out += concat("; fake NCCL: ", one);
  if (fake_nccl::history().operations < 10) out += "; NCCL was hardly used";
  if (fake_nccl::live_communicators() > 0) out += "; communicators are alive";
  return out;
}

TEST_CASE("processes: a rank that another process starts" * doctest::skip()) {
  auto const variable = [](int i) {
    char const* const text = std::getenv(variables[i]);
    REQUIRE(text != nullptr);
    return std::string(text);
  };
  rank_task const task{std::stoi(variable(0)), std::stoi(variable(1)), std::stoi(variable(2)),
                       std::stoi(variable(3)), variable(4)};
  test::write_all(task.folder / concat("message", task.rank), train_as(task));
}

/// The processes of a run.
class processes {
 public:
  explicit processes(rank_task task) : task_(std::move(task)) {
    for (char const* const name : {"gloo", "nccl"}) fs::create_directories(task_.folder / name);
    int const ranks = layouts[static_cast<std::size_t>(task_.layout)].ranks();
    for (int rank = 0; rank < ranks; ++rank) started_.push_back(start(rank));
  }
  processes(processes const&) = delete;
  processes& operator=(processes const&) = delete;
  ~processes() {
    fs::remove(task_.folder / "pause");
    static_cast<void>(wait_for_messages());
  }

  /// Waits until a rank has written its file `name`; fails when the rank ends before.
  void wait_for(int rank, std::string const& name) {
    auto& pid = started_.at(static_cast<std::size_t>(rank));
    while (!fs::exists(task_.folder / concat(name, rank))) {
      if (::waitpid(pid, nullptr, WNOHANG) != 0) {
        pid = 0;
        FAIL("rank ", rank, " has ended");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  void kill(int rank) const { ::kill(started_.at(static_cast<std::size_t>(rank)), SIGKILL); }

  /// Waits until all ranks have ended and returns their messages; "" for a rank that wrote none.
  [[nodiscard]] std::vector<std::string> wait_for_messages() {
    for (auto& pid : started_)
      if (auto const one = std::exchange(pid, 0); one != 0) ::waitpid(one, nullptr, 0);
    std::vector<std::string> out;
    for (std::size_t rank = 0; rank < started_.size(); ++rank) {
      auto const file = task_.folder / concat("message", rank);
      out.push_back(fs::exists(file) ? test::read_all(file) : "");
    }
    return out;
  }

 private:
  [[nodiscard]] pid_t start(int rank) const {
    std::vector<std::string> environment;
    for (char** one = environ; *one != nullptr; ++one) environment.emplace_back(*one);
    std::string const values[] = {std::to_string(rank), std::to_string(task_.layout),
                                  std::to_string(task_.batches), std::to_string(task_.seconds),
                                  task_.folder.string()};
    for (std::size_t i = 0; i < std::size(values); ++i)
      environment.push_back(concat(variables[i], '=', values[i]));
    std::vector<char*> pointers;
    for (auto& one : environment) pointers.push_back(one.data());
    pointers.push_back(nullptr);
    std::string words[] = {"rank", "--no-skip",
                           "--test-case=processes: a rank that another process starts",
                           "--minimal"};
    char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                               nullptr};
    auto const pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      ::execve("/proc/self/exe", arguments, pointers.data());
      ::_exit(127);
    }
    return pid;
  }

  rank_task task_;
  std::vector<pid_t> started_;
};

void check_layout(int layout, int batches) {
  CAPTURE(layout);
  run_files const files;
  rank_task task{.layout = layout, .batches = batches, .folder = files.folder / "processes"};
  for (auto const& message : processes(task).wait_for_messages())
    CHECK(message == "nothing was thrown");
  auto host = task;
  host.folder = files.folder / "host";
  fs::create_directories(host.folder);
  auto const expected =
      train<float>(config_of(files, host), layouts[static_cast<std::size_t>(layout)].ranks());
  auto const by_processes = fake_nccl::losses(task.folder / "metrics.jsonl");
  auto const by_host = fake_nccl::losses(host.folder / "metrics.jsonl");
  REQUIRE(by_processes.size() == by_host.size());
  CHECK(by_host.size() > 2);
  for (auto const& entry : by_host)
    CHECK_MESSAGE(
        std::abs(by_processes.at(entry.first) - entry.second) <= 1e-5 * std::abs(entry.second),
        entry.first);
  auto const saved = task.folder / "saved" / fs::path(expected.checkpoint).filename();
  CHECK(fake_nccl::difference(saved, expected.checkpoint) < 1e-3);
}

TEST_CASE("trainer of processes: two layouts have the host's losses and weights") {
  for (int const layout : {0, 1}) check_layout(layout, 2);
}

TEST_CASE("[full] trainer of processes: more layouts have the host's losses and weights") {
  for (int const layout : {2, 3, 4}) check_layout(layout, 4);
}

/// The ranks' messages of a run whose rank 2 is killed before the first batch.
std::vector<std::string> messages_after_kill(int layout) {
  run_files const files;
  rank_task const task{
      .layout = layout, .batches = 30, .seconds = 5, .folder = files.folder / "run"};
  fs::create_directories(task.folder);
  test::write_all(task.folder / "pause", "");
  processes ranks(task);
  int const count = layouts[static_cast<std::size_t>(layout)].ranks();
  for (int rank = 0; rank < count; ++rank) ranks.wait_for(rank, "paused");
  ranks.kill(2);
  fs::remove(task.folder / "pause");
  return ranks.wait_for_messages();
}

TEST_CASE("trainer of processes: gloo names a killed process where ranks agree on their input") {
  auto const messages = messages_after_kill(1);
  for (std::size_t const rank : {0, 1, 3}) {
    CAPTURE(messages[rank]);
    CHECK(messages[rank].find("rank 2 is gone: its connection to rank ") != std::string::npos);
  }
  CHECK(messages[2].empty());
}

TEST_CASE("[full] trainer of processes: inside NCCL a killed process is a missed deadline") {
  auto const messages = messages_after_kill(3);
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    if (rank == 2) continue;
    CAPTURE(messages[rank]);
    CHECK(messages[rank].find(" has waited 5 s for call ") != std::string::npos);
    CHECK(messages[rank].find("has not come to it, or the network does not carry it") !=
          std::string::npos);
  }
  CHECK(messages[2].empty());
}

}  // namespace
}  // namespace fake_nccl_processes_test
