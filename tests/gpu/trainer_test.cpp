// MPT's trainer on a GPU: the loss falls, and a resumed run writes the same files as an
// uninterrupted one, also with ranks that share the GPU.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>

#include <mpt/train/run_training.hpp>
#include <parallel/device/cuda/device.hpp>

#include "mpt/train/tiny_run.hpp"
#include "support/devices/gpu.hpp"

namespace gpu_trainer_test {

namespace fs = std::filesystem;
using parallel::bf16;

mpt::run_summary train(mpt::train_config const& config, int ranks) {
  auto const plan = mpt::plan_run<bf16>(config, ranks);
  auto const parts = tiny_run::parts_of(config);
  mpt::run_summary out;
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    bool const is_primary = comm.rank() == 0;
    parallel::any_communicator any(std::move(comm));
    parallel::cuda::device device({.deterministic = true});
    auto const summary = mpt::run_training<bf16>(config, any, device, plan, parts);
    if (is_primary) out = summary;
  });
  return out;
}

std::map<std::string, std::string> read_tensor_files(fs::path const& checkpoint) {
  std::map<std::string, std::string> out;
  for (auto const& entry : fs::directory_iterator(checkpoint))
    if (entry.path().extension() == ".safetensors")
      out[entry.path().filename()] = test::read_all(entry.path());
  return out;
}

TEST_CASE("trainer on a GPU: the loss falls") {
  if (!test::has_gpu()) return;
  tiny_run::run_files const files;
  auto config = files.config(120);
  config.optimizer.scheduler.t_max = config.run.max_duration;
  auto const summary = train(config, 2);
  CHECK(summary.batches == 120);
  CHECK(summary.loss < 0.5 * std::log(tiny_run::vocabulary));
}

TEST_CASE("trainer on a GPU: a resumed run equals an uninterrupted one bit for bit") {
  if (!test::has_gpu()) return;
  tiny_run::run_files const files;
  for (int const ranks : {1, 3}) {
    CAPTURE(ranks);
    auto config = files.config(11);
    config.execution.zero_stage = 1;
    auto const name = "run" + std::to_string(ranks);
    config.checkpoint.save_folder = files.folder / (name + "calm");
    auto const uninterrupted = train(config, ranks);
    config.checkpoint.save_folder = files.folder / (name + "stopped");
    config.checkpoint.autoresume = true;
    // The choice of kernels is a part of the run, so it is copied from the uninterrupted run.
    fs::create_directories(config.checkpoint.save_folder);
    fs::copy_file(files.folder / (name + "calm") / "kernels.txt",
                  fs::path(config.checkpoint.save_folder) / "kernels.txt");
    mpt::run_summary resumed;
    for (double const end : {5.0, 11.0}) {
      config.run.max_duration.count = end;
      resumed = train(config, ranks);
    }
    CHECK(resumed.loss == uninterrupted.loss);
    CHECK(read_tensor_files(resumed.checkpoint) == read_tensor_files(uninterrupted.checkpoint));
  }
}

}  // namespace gpu_trainer_test
