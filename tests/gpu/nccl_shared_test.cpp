// Ranks that are processes exchange by NVIDIA's NCCL although they share a GPU: with different
// values of NCCL_HOSTID, NCCL regards the processes as several machines. The tests check
// collectives, messages and split communicators exactly (sums of floats within their bound, equal
// on all ranks), and steps of an MPT, over sockets of this machine. A rank is this program again,
// which then runs the one test case that is skipped otherwise.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/nccl/communicator.hpp>
#include <parallel/comm/nccl/file_rendezvous.hpp>
#include <parallel/ops/cuda.hpp>

#include "parallel/support/files.hpp"
#include "support/devices/device_exchanges.hpp"
#include "support/devices/gpu.hpp"
#include "support/model_form.hpp"
#include "support/model_run.hpp"

namespace gpu_nccl_shared_test {
namespace {

namespace fs = std::filesystem;
using parallel::concat;
using parallel::nccl::communicator;
using test::model_layout;

/// The longest wait of a rank.
constexpr std::chrono::seconds patience(30);

communicator connect(int rank, int ranks, parallel::nccl::file_rendezvous& rendezvous) {
  ncclUniqueId id = {};
  if (rank == 0) {
    id = parallel::nccl::make_unique_id();
    rendezvous.write({id.internal, sizeof id.internal});
  } else {
    rendezvous.wait_for(sizeof id.internal, patience).copy(id.internal, sizeof id.internal);
  }
  return {id, rank, ranks, {.deadline = patience}};
}

/// Exchanges over the world and over halves of it, with the device's memory in windows.
void exchange(communicator world) {
  parallel::cuda::device device;
  device.take_exchanged_from(world.exchanged_memory());
  test::check_registered_exchanges(world, device, 400003);
  auto half = world.split(world.rank() % 2, "half");
  test::check_device_exchanges<float>(half, device, 1031, test::sum_order::unspecified);
}

std::vector<model_layout> const layouts{
    {.replicate = 2},
    {.level = parallel::zero::level::parameters, .shard = 2, .microbatch = 1},
    {.tensor = 2},
    {.context = 2},
    {.pipeline = 2, .schedule = {.schedule = "zb-h1"}, .microbatch = 1},
    {.pipeline = 2, .schedule = {.schedule = "zb-v", .stages_per_rank = 2}, .microbatch = 1},
    {.replicate = 2, .level = parallel::zero::level::gradients, .shard = 2, .microbatch = 1},
    {.tensor = 2, .pipeline = 2, .schedule = {.schedule = "1f1b"}, .microbatch = 1},
    {.context = 2, .tensor = 2},
};

/// Checks that a step of an MPT in this layout equals the host's in fp64 up to rounding.
void train(communicator world, model_layout const& layout) {
  mpt::model_config m;
  m.d_model = 32;
  m.n_heads = m.n_layers = 4;
  m.expansion_ratio = 4;
  m.vocab_size = 18;
  m.max_seq_len = 16;
  m = test::model_form(m, true);
  auto const expected = test::run_model<double>(m, {.microbatch = layout.microbatch});
  auto const got = test::run_model<float>(
      m, layout, [] { return parallel::cuda::device(); },
      [&](int, auto const& program) { program(std::move(world)); });
  auto const require_near = [](char const* quantity, double actual, double expected_value) {
    parallel::require(std::abs(actual - expected_value) <= 4e-5 * expected_value, quantity, " is ",
                      actual, ", expected ", expected_value);
  };
  require_near("the loss", got.loss, expected.loss);
  require_near("the evaluated loss", got.evaluated, expected.evaluated);
  require_near("the gradients' squared norm", got.squared_norm, expected.squared_norm);
}

TEST_CASE("NCCL on a shared GPU: a rank that another process starts" * doctest::skip()) {
  auto const variable = [](char const* name) {
    char const* const text = std::getenv(name);
    REQUIRE(text != nullptr);
    return std::string(text);
  };
  int const rank = std::stoi(variable("SHARED_RANK")),
            layout = std::stoi(variable("SHARED_LAYOUT"));
  fs::path const folder = variable("SHARED_FOLDER");
  std::string message = "done";
  try {
    parallel::nccl::file_rendezvous rendezvous(folder / "id", "shared");
    auto world = connect(rank, std::stoi(variable("SHARED_RANKS")), rendezvous);
    if (layout < 0)
      exchange(std::move(world));
    else
      train(std::move(world), layouts.at(static_cast<std::size_t>(layout)));
  } catch (std::exception const& problem) {
    message = problem.what();
  }
  test::write_all(folder / concat("message", rank), message);
}

/// Starts the process of a rank. `layout`: an index of `layouts`, or -1 for the exchanges.
pid_t start(int rank, int ranks, int layout, fs::path const& folder) {
  auto const pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid != 0) return pid;
  auto const set = [](char const* name, std::string const& value) {
    static_cast<void>(::setenv(name, value.c_str(), 1));
  };
  set("SHARED_RANK", std::to_string(rank));
  set("SHARED_RANKS", std::to_string(ranks));
  set("SHARED_LAYOUT", std::to_string(layout));
  set("SHARED_FOLDER", folder);
  set("NCCL_HOSTID", concat("host", rank));
  set("NCCL_SOCKET_IFNAME", "lo");
  set("NCCL_IB_DISABLE", "1");
  ::execl("/proc/self/exe", "rank", "--no-skip", "--source-file=*nccl_shared_test*",
          "--test-case=NCCL on a shared GPU: a rank that another process starts", "--minimal",
          nullptr);
  ::_exit(127);
}

void check(int ranks, int layout) {
  CAPTURE(ranks);
  CAPTURE(layout);
  test::temporary_folder const folder;
  std::vector<pid_t> started;
  for (int rank = 0; rank < ranks; ++rank)
    started.push_back(start(rank, ranks, layout, folder.path()));
  for (auto const pid : started) CHECK(::waitpid(pid, nullptr, 0) == pid);
  for (int rank = 0; rank < ranks; ++rank) {
    auto const file = folder / concat("message", rank);
    CHECK((fs::exists(file) ? test::read_all(file) : "nothing") == "done");
  }
}

TEST_CASE("NCCL on a shared GPU: processes exchange exactly") {
  if (!test::has_gpu()) return;
  for (int const ranks : {2, 4}) check(ranks, -1);
}

TEST_CASE("NCCL on a shared GPU: a step of MPT equals the host's fp64, in every axis") {
  if (!test::has_gpu()) return;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    auto const& layout = layouts[i];
    check(layout.context * layout.tensor * layout.replicate * layout.pipeline * layout.shard,
          static_cast<int>(i));
  }
}

}  // namespace
}  // namespace gpu_nccl_shared_test
