// The product's trainer over NCCL's classes: ranks are threads that agree by memory, and exchange
// by the fake NCCL, a fake GPU each.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallel/comm/checked.hpp>
#include <parallel/comm/flight_report.hpp>
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
  std::vector<std::string> told;  // each rank
  std::vector<parallel::flight_log> calls;
};

/// Trains there; what fails on a rank aborts its control communicator, as programs do.
template <class T = float>
outcome train_on_gpus(train_config const& config, int ranks, std::uint64_t seed = 1,
                      fake_nccl::options const& library = {}, batch_hook const& before = {}) {
  fake_cuda::restart({.devices = ranks, .peers = false, .seed = seed, .loads_lazily = true});
  fake_nccl::restart(library);
  auto const plan = mpt::plan_run<T>(config, ranks);
  auto const parts = tiny_run::parts_of(config);
  outcome out;
  out.told.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) out.calls.push_back({.rank = rank, .ranks = ranks});
  parallel::shared_deadline const deadline = std::chrono::minutes(1);
  parallel::threads::run(
      ranks,
      [&](parallel::threads::communicator& comm) {
        any_communicator control(parallel::checked(std::move(comm)));
        auto& told = out.told[static_cast<std::size_t>(control.rank())];
        auto const recorder = std::make_shared<parallel::flight_recorder>(1 << 16);
        told = parallel::conformance::message_of([&] {
          parallel::cuda::device device({.device = control.rank(),
                                         .deterministic = config.deterministic,
                                         .graphs = config.cuda_graphs});
          try {
            parallel::nccl::any_communicator exchanges(
                parallel::nccl::connect(
                    control, device,
                    {.deadline = deadline, .recorder = recorder, .least_window_bytes = 0})
                    .value());
            mpt::run_hooks hooks{.deadline = deadline};
            if (before)
              hooks.stop_asked = [&before, &control, batch = 0]() mutable {
                before(control, batch++);
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
  CHECK(fake_nccl::alive() == 0);
  return out;
}

void check_calm(outcome const& got) {
  for (auto const& told : got.told) CHECK(told == "nothing was thrown");
  CHECK(fake_cuda::happened().failures.empty());
  CHECK(fake_nccl::happened().failures.empty());
  std::size_t in_windows = 0;
  for (auto const& [what, bytes] : fake_nccl::happened().exchanged) in_windows += bytes.in_windows;
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

/// What run() writes to a metrics file, in folders of its own.
template <class Run>
std::map<std::string, double> losses_of(place const& here, train_config& config,
                                        std::string const& name, Run&& run) {
  config.checkpoint.save_folder = here.folder / name;
  config.logging.metrics_file = here.folder / (name + ".jsonl");
  run();
  return losses(config.logging.metrics_file);
}

/// Trains on the host and there: the same losses and weights, to rounding.
void check_run(place const& here, train_config config, int ranks, std::uint64_t seed) {
  config.eval_loaders = {here.held_out()};
  config.evaluation.eval_interval = {2, time_unit::batch};
  fs::path expected;
  auto const host = losses_of(here, config, concat("host", seed),
                              [&] { expected = train<float>(config, ranks).checkpoint; });
  config.cuda_graphs = seed % 2 == 0;
  outcome got;
  auto const gpus = losses_of(here, config, concat("gpus", seed),
                              [&] { got = train_on_gpus(config, ranks, seed); });
  check_calm(got);
  auto const library = fake_nccl::happened();
  CHECK(library.operations > 0);
  CHECK(library.registered > 0);
  if (config.zero_stage > 1 && config.reduction_order == reduction_order::by_rank)
    for (char const* const what : {"ncclReduceScatter of f32", "ncclAllGather of f32"})
      CHECK_MESSAGE(library.exchanged.at(what).registered > 10'000, what);
  CHECK(got.summary.batches == config.max_duration.count);
  REQUIRE(gpus.size() == host.size());
  for (auto const& at : host)
    CHECK_MESSAGE(std::abs(gpus.at(at.first) - at.second) <= 1e-5 * std::abs(at.second), at.first);
  CHECK(difference(got.summary.checkpoint, expected) < 1e-3);
}

void check_runs(std::vector<grid> const& all, double batches) {
  place const here;
  std::uint64_t seed = 0;
  for (auto const& how : all) {
    CAPTURE(seed);
    check_run(here, on(configuration(here, batches), how), how.ranks(), ++seed);
  }
}

TEST_CASE("runs have the host's losses and weights") {
  check_runs({layouts[1], layouts[2], layouts[3]}, 2);
}

TEST_CASE("runs of eight ranks, too") { check_runs({layouts[5], layouts[6], layouts[7]}, 2); }

TEST_CASE("[full] longer runs have the host's losses and weights, in every kind of layout") {
  check_runs(layouts, 6);
}

TEST_CASE("runs whose steps are made otherwise have the host's losses and weights, too") {
  struct option {
    std::string name;
    grid how;
    std::function<void(train_config&)> set;
  };
  grid const two{.zero_stage = 2, .data = 2};
  option const options[] = {
      {"adaptive clipping", two,
       [](auto& c) {
         c.clip = {clipping_kind::adaptive, 2e-2};
       }},
      {"value clipping", two,
       [](auto& c) {
         c.clip = {clipping_kind::value, 2e-3};
       }},
      {"the canonical order", two,
       [](auto& c) {
         c.reduction_order = reduction_order::canonical_tree;
         c.clip = {clipping_kind::adaptive, 2e-2};
       }},
      {"Muon",
       {.zero_stage = 3, .data = 2},
       [](auto& c) {
         c.optimizer.name = "muon";
         c.optimizer.muon.emplace();
       }},
      {"weights' gradients beside",
       {.zero_stage = 3, .data = 2, .parallelism = {.tensor = 2}},
       [](auto& c) { c.parallelism.overlap_weight_gradients = true; }},
      {"a context ring", layouts[4], [](auto&) {}},
      {"a reduction for every microbatch",
       {.zero_stage = 2, .data = 2},
       [](auto& c) {
         c.global_train_batch_size = 8;
         c.reduce_every_microbatch = true;
       }},
      {"batches made twice, to find what corrupts them",
       {.data = 2},
       [](auto& c) {
         c.deterministic = true;
         c.corruption_check.interval = {1, time_unit::batch};
       }},
  };
  std::uint64_t seed = 10;
  for (auto const& each : options) {
    CAPTURE(each.name);
    place const here;
    auto config = on(configuration(here, 2), each.how);
    each.set(config);
    check_run(here, config, each.how.ranks(), ++seed);
  }
}

TEST_CASE(
    "in bf16, as GPUs train, runs have the host's losses to its rounding: gradients in bf16, "
    "offloaded states") {
  place const here;
  grid const how{.zero_stage = 3, .data = 2};
  auto config = on(configuration(here, 4), how);
  config.precision = mpt::precision_kind::amp_bf16;
  config.cuda_graphs = true;
  for (bool const half : {false, true}) {
    CAPTURE(half);
    config.reduce_dtype =
        half ? parallel::zero::reduce_dtype::bf16 : parallel::zero::reduce_dtype::full;
    auto const host = losses_of(here, config, concat("host", half), [&] {
      static_cast<void>(train<parallel::bf16>(config, how.ranks()));
    });
    config.offload_optimizer = half;
    auto const gpus = losses_of(here, config, concat("gpus", half), [&] {
      check_calm(train_on_gpus<parallel::bf16>(config, how.ranks(), 1 + half));
    });
    config.offload_optimizer = false;
    REQUIRE(gpus.size() == host.size());
    REQUIRE(host.size() >= 4);
    for (auto const& at : host) {
      bool const is_power = at.first.ends_with("Perplexity");  // of the cross entropy
      auto const of = [&](double value) { return is_power ? std::log(value) : value; };
      CHECK_MESSAGE(
          std::abs(of(gpus.at(at.first)) - of(at.second)) <= std::abs(of(at.second)) / 256,
          at.first);
    }
    auto const library = fake_nccl::happened();
    CHECK(library.exchanged.at("ncclAllGather of bf16").registered > 10'000);
    CHECK(library.exchanged.contains("ncclReduceScatter of f32") == !half);
  }
}

TEST_CASE("a run that begins makes its initial values once, kernels tried before or not") {
  place const here;
  auto const config = on(configuration(here, 1), {.zero_stage = 3, .data = 2});
  check_calm(train_on_gpus<parallel::bf16>(config, 2));
  auto const once =
      6 * static_cast<std::size_t>(mpt::parameter_count(config.model));  // both precisions
  auto const uploaded = fake_cuda::happened().uploaded_bytes;
  CHECK(uploaded >= once);
  CHECK(uploaded < once + once / 2);
}

TEST_CASE("attention in bf16 that is left to the plain kernels is told of, once") {
  place const here;
  auto config = on(configuration(here, 2), layouts[0]);
  config.model.attn.attn_logit_softcapping = 30;
  auto const said = [&]<class T>(T) {
    return test::captured_stderr(here.folder / "said",
                                 [&] { check_calm(train_on_gpus<T>(config, layouts[0].ranks())); });
  };
  std::string const note = "warning: attention runs on plain kernels, which take many times as";
  auto const in_bf16 = said(parallel::bf16());
  auto const at = in_bf16.find(note);
  REQUIRE(at != std::string::npos);
  CHECK(in_bf16.find(note, at + 1) == std::string::npos);
  CHECK(said(0.0F).find(note) == std::string::npos);  // in float there are no others
}

TEST_CASE("texts that are written between steps are the host's") {
  place const here;
  grid const how{.zero_stage = 1, .data = 2, .parallelism = {.tensor = 2}};
  auto config = on(configuration(here, 1), how);
  config.model.vocab_size = 421;  // 420 tokens; not divisible by two
  config.model.max_seq_len = 64;
  config.tokenizer.name = icl_test::folder() / "tokenizer_a";
  config.callbacks.generate = mpt::generate_config{.prompts = {"a lantern", "the bell and"},
                                                   .interval = {1, time_unit::batch},
                                                   .max_new_tokens = 5,
                                                   .temperature = 0};
  auto const texts = [&](char const* name, auto const& run) {
    config.logging.metrics_file = here.folder / name;
    run();
    std::vector<std::string> out;
    for (auto const& record : records(config.logging.metrics_file))
      for (auto const& [key, value] : record.items())
        if (key.starts_with("generations/")) out.push_back(value.dump());
    return out;
  };
  auto const host =
      texts("host.jsonl", [&] { static_cast<void>(train<float>(config, how.ranks())); });
  auto const gpus = texts("gpus.jsonl", [&] { check_calm(train_on_gpus(config, how.ranks(), 2)); });
  CHECK(host.size() == 2);
  CHECK(gpus == host);
}

TEST_CASE("stopped and resumed equals not stopped, bit for bit, at whatever pace streams run") {
  place const here;
  grid const how{.zero_stage = 2, .data = 2};
  auto config = on(configuration(here, 4), how);
  config.checkpoint.save_folder = here.folder / "calm";
  auto const calm = train_on_gpus(config, how.ranks(), 3);
  check_calm(calm);
  config.checkpoint.save_folder = here.folder / "stopped";
  config.checkpoint.autoresume = true;
  fs::create_directories(config.checkpoint.save_folder);
  fs::copy_file(here.folder / "calm" / "kernels.txt",
                fs::path(config.checkpoint.save_folder) / "kernels.txt");
  outcome part;
  for (double const end : {2.0, 4.0}) {
    config.max_duration.count = end;
    part = train_on_gpus(config, how.ranks(), static_cast<std::uint64_t>(end));
    check_calm(part);
  }
  CHECK(part.summary.loss == calm.summary.loss);
  CHECK(tensors_of(part.summary.checkpoint) == tensors_of(calm.summary.checkpoint));
}

TEST_CASE("a rank that fails beside the step is named by all that wait in it") {
  place const here;
  auto const how = layouts[3];
  auto const config = on(configuration(here, 5), how);
  auto const got = train_on_gpus(config, how.ranks(), 1, {}, [](auto& control, int batch) {
    parallel::require(control.rank() != 1 || batch != 1, "the disk is full");
  });
  for (std::size_t rank = 0; rank < got.told.size(); ++rank)
    CHECK(got.told[rank] == (rank == 1 ? "the disk is full" : "rank 1 failed: the disk is full"));
}

TEST_CASE("an error of NCCL ends the run on all ranks, with its words") {
  place const here;
  auto const config = on(configuration(here, 40), layouts[0]);
  auto const got =
      train_on_gpus(config, 2, 1, {.fault = fake_nccl::fault::asynchronous_error},
                    [](auto&, int) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
  for (auto const& told : got.told) CHECK(told.find("a link went down") != std::string::npos);
}

TEST_CASE("a rank that does not come to a step is waited for as deadlines.step says") {
  place const here;
  auto config = on(configuration(here, 5), layouts[0]);
  config.deadlines.step = 0.5;
  auto const got = train_on_gpus(config, 2, 1, {}, [](auto& control, int batch) {
    while (control.rank() == 1 && batch == 1 && !control.abort_reason())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (control.rank() == 1 && batch == 1)  // until NCCL's communicators have ended here too
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  for (auto const& told : got.told)
    CHECK(told.starts_with("rank 0 failed: rank 0 has waited 0.5 s for call "));
  auto const found = parallel::findings(got.calls);
  REQUIRE(!found.waits.empty());
  CHECK(found.waits.front().waiting_ranks == std::vector{0});
  CHECK(found.waits.front().absent_ranks == std::vector{1});
  CHECK(found.waits.front().call.call_signature.axis_name().starts_with("NCCL"));
  CHECK(found.late == std::vector{1});
}

TEST_CASE("runs see what the library does wrong") {
  place const here;
  grid const how{.zero_stage = 3, .data = 2};
  auto const config = on(configuration(here, 2), how);
  auto const loss_with = [&](fake_nccl::options const& library) {
    auto const got = train_on_gpus(config, how.ranks(), 1, library);
    bool const calm = std::ranges::all_of(
        got.told, [](auto const& told) { return told == "nothing was thrown"; });
    return calm ? got.summary.loss : -1;
  };
  auto const right = loss_with({});
  CHECK(right > 0);
  using enum fake_nccl::fault;
  auto const patience = std::chrono::seconds(2);
  CHECK(loss_with({.patience = patience, .fault = wrong_count}) != right);
  CHECK(loss_with({.patience = patience, .fault = crossed_streams}) != right);
}

}  // namespace
}  // namespace fake_nccl_trainer_test
