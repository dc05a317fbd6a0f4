// MPT's trainer with the communicators of NCCL. Ranks are threads with a fake GPU each; their
// control communicator is in memory, and GPU memory is exchanged by the fake NCCL.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/checked.hpp>
#include <parallel/comm/flight/flight_report.hpp>
#include <parallel/comm/nccl/connect.hpp>
#include <parallel/conformance/values.hpp>

#include "fake_cuda/ranks.hpp"
#include "fake_nccl/compared_runs.hpp"
#include "fake_nccl/fake_nccl.hpp"
#include "mpt/eval/icl_support.hpp"
#include "mpt/train/tiny_run.hpp"
#include "support/captured_stderr.hpp"

namespace fake_nccl_trainer_test {
namespace {

using namespace tiny_run;
using fake_nccl::configuration;
using fake_nccl::difference;
using fake_nccl::losses;
using parallel::any_communicator;
using parallel::concat;
using parallel::train::clipping_kind;
using parallel::zero::reduction_order;

/// Called on every rank before each batch.
using batch_hook = std::function<void(any_communicator& control, int batch)>;

struct outcome {
  mpt::run_summary summary;
  std::vector<std::string> messages;  // by rank
  std::vector<parallel::flight_log> calls;
};

/// Trains on fake GPUs. A rank that fails aborts its control communicator, as programs do.
template <class T = float>
outcome train_on_gpus(train_config const& config, int ranks, std::uint64_t seed = 1,
                      fake_nccl::options const& library = {}, batch_hook const& before_batch = {}) {
  fake_cuda::restart({.devices = ranks, .peers = false, .seed = seed, .loads_lazily = true});
  fake_nccl::restart(library);
  auto const plan = mpt::plan_run<T>(config, ranks);
  auto const parts = tiny_run::parts_of(config);
  outcome out;
  out.messages.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) out.calls.push_back({.rank = rank, .ranks = ranks});
  parallel::shared_deadline const deadline = std::chrono::minutes(1);
  parallel::threads::run(
      ranks,
      [&](parallel::threads::communicator& comm) {
        any_communicator control(parallel::checked(std::move(comm)));
        auto& message = out.messages[static_cast<std::size_t>(control.rank())];
        auto const recorder = std::make_shared<parallel::flight_recorder>(1 << 16);
        message = parallel::conformance::message_of([&] {
          parallel::cuda::device device({.device = control.rank(),
                                         .deterministic = config.execution.deterministic,
                                         .graphs = config.execution.cuda_graphs});
          try {
            parallel::nccl::any_communicator exchanges(
                parallel::nccl::connect(
                    control, device,
                    {.deadline = deadline, .recorder = recorder, .least_window_bytes = 0})
                    .value());
            mpt::run_hooks hooks{.deadline = deadline};
            if (before_batch)
              hooks.stop_asked = [&before_batch, &control, batch = 0]() mutable {
                before_batch(control, batch++);
                return false;
              };
            auto const summary =
                mpt::run_training<T>(config, control, exchanges, device, plan, parts, hooks);
            if (control.rank() == 0) out.summary = summary;
          } catch (std::exception const& problem) {
            control.abort(problem.what());
            throw;
          }
        });
        out.calls[static_cast<std::size_t>(control.rank())].calls = recorder->calls();
      },
      {.deadline = deadline});
  CHECK(fake_nccl::live_communicators() == 0);
  return out;
}

void check_success(outcome const& got) {
  for (auto const& message : got.messages) CHECK(message == "nothing was thrown");
  CHECK(fake_cuda::history().failures.empty());
  CHECK(fake_nccl::history().failures.empty());
  std::size_t in_windows = 0;
  for (auto const& [operation, bytes] : fake_nccl::history().exchanged)
    in_windows += bytes.in_windows;
  CHECK(in_windows > 0);
  auto const found = parallel::findings(got.calls);
  CHECK(found.divergence == "");
  CHECK(found.waits.empty());
  for (auto const& log : got.calls) CHECK(log.calls.size() > 10);
}

std::vector<grid> const layouts{
    {.data = 2},
    {.zero_stage = 3, .data = 4},
    {.zero_stage = 1, .data = 2, .parallelism = {.tensor = 2, .sequence_parallel = true}},
    {.zero_stage = 2, .data = 2, .parallelism = {.pipeline = 2, .schedule = "zb-h1"}},
    {.zero_stage = 3, .data = 2, .parallelism = {.context = 2}},
    {.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2, .pipeline = 2}},
    {.zero_stage = 2, .data = 2, .parallelism = {.tensor = 2, .context = 2}},
    {.zero_stage = 2, .data = 2, .parallelism = {.context = 2, .pipeline = 2}},
};

/// Calls run() with a checkpoint folder and a metrics file named `name`; returns the losses that it
/// writes to the file.
template <class Run>
std::map<std::string, double> run_and_read_losses(run_files const& files, train_config& config,
                                                  std::string const& name, Run&& run) {
  config.checkpoint.save_folder = files.folder / name;
  config.output.metrics_file = files.folder / (name + ".jsonl");
  run();
  return losses(config.output.metrics_file);
}

/// Trains on the host and on fake GPUs, and checks that losses and weights agree up to rounding.
void check_run(run_files const& files, train_config config, int ranks, std::uint64_t seed) {
  config.data.eval_loaders = {files.held_out()};
  config.evaluation.eval_interval = {2, time_unit::batch};
  fs::path expected;
  auto const host = run_and_read_losses(files, config, concat("host", seed),
                                        [&] { expected = train<float>(config, ranks).checkpoint; });
  config.execution.cuda_graphs = seed % 2 == 0;
  outcome got;
  auto const gpus = run_and_read_losses(files, config, concat("gpus", seed),
                                        [&] { got = train_on_gpus(config, ranks, seed); });
  check_success(got);
  auto const library = fake_nccl::history();
  CHECK(library.operations > 0);
  CHECK(library.registered > 0);
  if (config.execution.zero_stage > 1 &&
      config.execution.reduction_order == reduction_order::by_rank)
    for (char const* const operation : {"ncclReduceScatter of f32", "ncclAllGather of f32"})
      CHECK_MESSAGE(library.exchanged.at(operation).registered > 10'000, operation);
  CHECK(got.summary.batches == config.run.max_duration.count);
  REQUIRE(gpus.size() == host.size());
  for (auto const& entry : host)
    CHECK_MESSAGE(std::abs(gpus.at(entry.first) - entry.second) <= 1e-5 * std::abs(entry.second),
                  entry.first);
  CHECK(difference(got.summary.checkpoint, expected) < 1e-3);
}

void check_runs(std::vector<grid> const& grids, double batches) {
  run_files const files;
  std::uint64_t seed = 0;
  for (auto const& layout : grids) {
    CAPTURE(seed);
    check_run(files, with_layout(configuration(files, batches), layout), layout.ranks(), ++seed);
  }
}

TEST_CASE("trainer over NCCL: three layouts give the host's losses and weights") {
  check_runs({layouts[1], layouts[2], layouts[3]}, 2);
}

TEST_CASE("trainer over NCCL: layouts of eight ranks give the host's losses and weights") {
  check_runs({layouts[5], layouts[6], layouts[7]}, 2);
}

TEST_CASE("[full] trainer over NCCL: longer runs of every layout have the host's results") {
  check_runs(layouts, 6);
}

TEST_CASE("trainer over NCCL: steps with each option give the host's losses and weights") {
  struct option {
    std::string name;
    grid layout;
    std::function<void(train_config&)> set;
  };
  grid const zero2_layout{.zero_stage = 2, .data = 2};
  option const options[] = {
      {"adaptive clipping", zero2_layout,
       [](auto& c) {
         c.optimizer.clip = {clipping_kind::adaptive, 2e-2};
       }},
      {"value clipping", zero2_layout,
       [](auto& c) {
         c.optimizer.clip = {clipping_kind::value, 2e-3};
       }},
      {"the canonical order", zero2_layout,
       [](auto& c) {
         c.execution.reduction_order = reduction_order::canonical_tree;
         c.optimizer.clip = {clipping_kind::adaptive, 2e-2};
       }},
      {"Muon",
       {.zero_stage = 3, .data = 2},
       [](auto& c) {
         c.optimizer.name = "muon";
         c.optimizer.muon.emplace();
       }},
      {"overlapped weight gradients",
       {.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2}},
       [](auto& c) { c.execution.parallelism.overlap_weight_gradients = true; }},
      {"a context ring", layouts[4], [](auto&) {}},
      {"a reduction for every microbatch",
       {.zero_stage = 2, .data = 2},
       [](auto& c) {
         c.data.global_train_batch_size = 8;
         c.execution.reduce_every_microbatch = true;
       }},
      {"the corruption check, which computes batches twice",
       {.data = 2},
       [](auto& c) {
         c.execution.deterministic = true;
         c.run.corruption_check.interval = {1, time_unit::batch};
       }},
  };
  std::uint64_t seed = 10;
  for (auto const& variation : options) {
    CAPTURE(variation.name);
    run_files const files;
    auto config = with_layout(configuration(files, 2), variation.layout);
    variation.set(config);
    check_run(files, config, variation.layout.ranks(), ++seed);
  }
}

TEST_CASE(
    "trainer over NCCL: bf16 runs have the host's losses up to rounding, with bf16 gradients and "
    "offloaded states") {
  run_files const files;
  grid const layout{.zero_stage = 3, .data = 2};
  auto config = with_layout(configuration(files, 4), layout);
  config.execution.precision = mpt::precision_kind::amp_bf16;
  config.execution.cuda_graphs = true;
  for (bool const bf16_gradients : {false, true}) {
    CAPTURE(bf16_gradients);
    config.execution.reduce_dtype =
        bf16_gradients ? parallel::zero::reduce_dtype::bf16 : parallel::zero::reduce_dtype::full;
    auto const host = run_and_read_losses(files, config, concat("host", bf16_gradients), [&] {
      static_cast<void>(train<parallel::bf16>(config, layout.ranks()));
    });
    config.execution.offload_optimizer = bf16_gradients;
    auto const gpus = run_and_read_losses(files, config, concat("gpus", bf16_gradients), [&] {
      check_success(train_on_gpus<parallel::bf16>(config, layout.ranks(), 1 + bf16_gradients));
    });
    config.execution.offload_optimizer = false;
    REQUIRE(gpus.size() == host.size());
    REQUIRE(host.size() >= 4);
    for (auto const& entry : host) {
      bool const is_perplexity = entry.first.ends_with("Perplexity");  // exp(cross entropy)
      auto const comparable = [&](double value) { return is_perplexity ? std::log(value) : value; };
      CHECK_MESSAGE(std::abs(comparable(gpus.at(entry.first)) - comparable(entry.second)) <=
                        std::abs(comparable(entry.second)) / 256,
                    entry.first);
    }
    auto const library = fake_nccl::history();
    CHECK(library.exchanged.at("ncclAllGather of bf16").registered > 10'000);
    CHECK(library.exchanged.contains("ncclReduceScatter of f32") == !bf16_gradients);
  }
}

TEST_CASE("trainer over NCCL: a new run uploads its initial values once") {
  run_files const files;
  auto const config = with_layout(configuration(files, 1), {.zero_stage = 3, .data = 2});
  check_success(train_on_gpus<parallel::bf16>(config, 2));
  auto const single_upload =
      6 *
      static_cast<std::size_t>(mpt::parameter_count(config.model));  // bytes: fp32 and bf16 values
  auto const uploaded = fake_cuda::history().uploaded_bytes;
  CHECK(uploaded >= single_upload);
  CHECK(uploaded < single_upload + single_upload / 2);
}

TEST_CASE("trainer over NCCL: a warning says once that bf16 attention runs on plain kernels") {
  run_files const files;
  auto config = with_layout(configuration(files, 2), layouts[0]);
  config.model.attn.attn_logit_softcapping = 30;
  auto const console_output = [&]<class T>(T) {
    return test::captured_stderr(files.folder / "stderr", [&] {
      check_success(train_on_gpus<T>(config, layouts[0].ranks()));
    });
  };
  std::string const note = "warning: attention runs on plain kernels, which take many times as";
  auto const in_bf16 = console_output(parallel::bf16());
  auto const position = in_bf16.find(note);
  REQUIRE(position != std::string::npos);
  CHECK(in_bf16.find(note, position + 1) == std::string::npos);
  CHECK(console_output(0.0F).find(note) == std::string::npos);  // float has only plain kernels
}

TEST_CASE("trainer over NCCL: texts generated between steps equal the host's") {
  run_files const files;
  grid const layout{.zero_stage = 1, .data = 2, .parallelism = {.tensor = 2}};
  auto config = with_layout(configuration(files, 1), layout);
  config.model.vocab_size = 421;  // for 420 tokens of the tokenizer; two ranks do not divide it
  config.model.max_seq_len = 64;
  config.data.tokenizer.name = icl_test::folder() / "tokenizer_a";
  config.callbacks.generate = mpt::generate_config{.prompts = {"a lantern", "the bell and"},
                                                   .interval = {1, time_unit::batch},
                                                   .max_new_tokens = 5,
                                                   .temperature = 0};
  auto const texts = [&](char const* name, auto const& run) {
    config.output.metrics_file = files.folder / name;
    run();
    std::vector<std::string> out;
    for (auto const& record : records(config.output.metrics_file))
      for (auto const& [key, value] : record.items())
        if (key.starts_with("generations/")) out.push_back(value.dump());
    return out;
  };
  auto const host =
      texts("host.jsonl", [&] { static_cast<void>(train<float>(config, layout.ranks())); });
  auto const gpus =
      texts("gpus.jsonl", [&] { check_success(train_on_gpus(config, layout.ranks(), 2)); });
  CHECK(host.size() == 2);
  CHECK(gpus == host);
}

TEST_CASE("trainer over NCCL: a resumed run equals an uninterrupted one bit for bit") {
  run_files const files;
  grid const layout{.zero_stage = 2, .data = 2};
  auto config = with_layout(configuration(files, 4), layout);
  config.checkpoint.save_folder = files.folder / "uninterrupted";
  auto const uninterrupted = train_on_gpus(config, layout.ranks(), 3);
  check_success(uninterrupted);
  config.checkpoint.save_folder = files.folder / "stopped";
  config.checkpoint.autoresume = true;
  fs::create_directories(config.checkpoint.save_folder);
  fs::copy_file(files.folder / "uninterrupted" / "kernels.txt",
                fs::path(config.checkpoint.save_folder) / "kernels.txt");
  outcome resumed;
  for (double const end : {2.0, 4.0}) {
    config.run.max_duration.count = end;
    resumed = train_on_gpus(config, layout.ranks(), static_cast<std::uint64_t>(end));
    check_success(resumed);
  }
  CHECK(resumed.summary.loss == uninterrupted.summary.loss);
  CHECK(tensors_of(resumed.summary.checkpoint) == tensors_of(uninterrupted.summary.checkpoint));
}

TEST_CASE("trainer over NCCL: every rank that waits in a step names the rank that failed") {
  run_files const files;
  auto const layout = layouts[3];
  auto const config = with_layout(configuration(files, 5), layout);
  auto const got = train_on_gpus(config, layout.ranks(), 1, {}, [](auto& control, int batch) {
    parallel::require(control.rank() != 1 || batch != 1, "the disk is full");
  });
  for (std::size_t rank = 0; rank < got.messages.size(); ++rank)
    CHECK(got.messages[rank] ==
          (rank == 1 ? "the disk is full" : "rank 1 failed: the disk is full"));
}

TEST_CASE("trainer over NCCL: deadlines.step bounds the wait for a rank that misses a step") {
  run_files const files;
  auto config = with_layout(configuration(files, 5), layouts[0]);
  config.run.deadlines.step = 0.5;
  auto const got = train_on_gpus(config, 2, 1, {}, [](auto& control, int batch) {
    while (control.rank() == 1 && batch == 1 && !control.abort_reason())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (control.rank() == 1 && batch == 1)  // until the NCCL communicators of rank 1 have ended too
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  for (auto const& message : got.messages)
    CHECK(message.starts_with("rank 0 failed: rank 0 has waited 0.5 s for call "));
  auto const found = parallel::findings(got.calls);
  REQUIRE(!found.waits.empty());
  CHECK(found.waits.front().waiting_ranks == std::vector{0});
  CHECK(found.waits.front().absent_ranks == std::vector{1});
  CHECK(found.waits.front().call.call_signature.axis_name().starts_with("NCCL"));
  CHECK(found.late == std::vector{1});
}

}  // namespace
}  // namespace fake_nccl_trainer_test
