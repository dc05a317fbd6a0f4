// Compares the plan of a run with a real step: the memory that the meta device predicts equals the
// memory that the host device and the arena count, to the byte.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/sizes.hpp>
#include <mpt/train/setup/plan_run.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/support/files.hpp>
#include <parallel/train/stepper.hpp>

namespace mpt_plan_test {
namespace {

using mpt::microbatch;
using mpt::sequences;
using parallel::bf16;
using parallel::index;
namespace train = parallel::train;

mpt::train_config configuration(bool hub_form) {
  mpt::train_config config;
  config.run.name = "tiny";
  config.model.d_model = 24;
  config.model.n_heads = 3;
  config.model.n_layers = 2;
  config.model.vocab_size = 37;
  config.model.max_seq_len = 12;
  if (hub_form) {
    config.model.learned_pos_emb = false;
    config.model.no_bias = true;
    config.model.attn.alibi = true;
    config.model.attn.qk_ln = true;
  } else {
    config.model.resid_pdrop = 0.1;
    config.model.emb_pdrop = 0.1;
    config.model.attn.attn_pdrop = 0.1;
  }
  config.data.train_loader.max_seq_len = 12;
  config.run.max_duration = {3, mpt::time_unit::batch};
  config.data.global_train_batch_size = 12;
  config.evaluation.device_eval_batch_size = 5;
  return config;
}

constexpr std::byte untouched_byte{0xa5};

/// The number of lines of an arena, at whose beginnings it allocates, in which nothing was written.
std::size_t untouched_lines(std::span<std::byte const> memory) {
  std::size_t lines = 0;
  for (; !memory.empty(); memory = memory.subspan(parallel::arena::alignment))
    lines += std::ranges::count(memory.first(parallel::arena::alignment), untouched_byte) ==
             std::ptrdiff_t{parallel::arena::alignment};
  return lines;
}

/// Runs one step and one evaluation on every rank, under the plan of exactly this run. The step
/// writes each line of the planned activations; where blocks recompute or attention has dropout,
/// which reserve statistics that they do not write, all but 2 %.
template <class T>
void check(mpt::train_config const& config, int ranks, std::size_t available = 0) {
  auto const plan = mpt::plan_run<T>(config, ranks, available);
  auto const make_batch = [](index count) {
    return sequences(std::vector<std::int32_t>(static_cast<std::size_t>(count * 12), 3), 12);
  };
  parallel::threads::run(ranks, [&](parallel::threads::communicator& comm) {
    parallel::host::device device;
    mpt::model<T> net(config.model, {}, plan.recompute);
    train::process_groups groups(comm.split(0), mpt::run_layout(config, ranks),
                                 mpt::level_of(config.execution));
    train::stepper step(net, device, groups, groups_of(config.optimizer, net),
                        stepper_options_of(config.optimizer, config.execution, config.run, plan));
    step.initialise(1);
    auto const activations = device.allocate<std::byte>(plan.memory.activations);
    std::ranges::fill(activations.span(), untouched_byte);
    parallel::arena memory(activations);
    CHECK(device.bytes() == plan.memory.total());
    parallel::host::stream compute;
    parallel::host::stream exchanges;
    auto const training_batch = make_batch(plan.split.microbatch);
    auto const evaluation_batch = make_batch(config.evaluation.device_eval_batch_size);
    std::vector const batches(2, training_batch.view({0, training_batch.count()}));
    index const begin = 200 * groups.data_rank();
    std::vector<index> const first{begin, begin + 100};
    (void)step.step(compute, exchanges, memory, {batches, first, {.seed = 3}, 1.0});
    if (!config.data.eval_loaders.empty()) {
      auto const batch = evaluation_batch.view({0, evaluation_batch.count()});
      train::statistics_sum<double> sums;
      step.add_evaluation(compute, memory, std::span(&batch, 1), sums);
    }
    CHECK(memory.peak() == plan.memory.activations);
    auto const untouched = untouched_lines(activations.span());
    bool const uses_all = plan.recompute.empty() && config.model.attn.attn_pdrop == 0;
    CHECK(untouched * 50 <= (uses_all ? 0 : activations.size() / parallel::arena::alignment));
    CHECK(device.peak_bytes() == plan.memory.total());
  });
}

TEST_CASE_TEMPLATE(
    "run plan: a real run uses the planned bytes, by precision, ZeRO, ranks and form", T, float,
    bf16) {
  for (bool const hub_form : {false, true})
    for (int const stage : {0, 1, 2, 3})
      for (int const ranks : {1, 2, 3})
        for (index const microbatch : {1, 3}) {
          CAPTURE(hub_form);
          CAPTURE(stage);
          CAPTURE(ranks);
          CAPTURE(microbatch);
          auto config = configuration(hub_form);
          config.execution.zero_stage = stage;
          config.data.device_train_microbatch_size = microbatch;
          if (hub_form) config.data.eval_loaders.push_back(config.data.train_loader);
          check<T>(config, ranks);
          if (stage < 3 || ranks < 3 || microbatch < 3) continue;
          config.execution.reshard_after_forward = false;
          check<T>(config, ranks);
          config.execution.parallelism.shard = 2;
          check<T>(config, 4);
        }
}

TEST_CASE("run plan: recomputation takes the planned memory, which is less than without it") {
  for (bool const hub_form : {false, true})
    for (auto const scope :
         {&mpt::recomputation::block, &mpt::recomputation::attention_branch,
          &mpt::recomputation::attention, &mpt::recomputation::feed_forward_branch,
          &mpt::recomputation::feed_forward}) {
      auto config = configuration(hub_form);
      config.model.n_layers = 4;
      config.data.device_train_microbatch_size = 3;
      auto const without_recomputing = mpt::plan_run<float>(config, 1);
      config.execution.recompute.emplace(4);
      for (std::size_t const i : {1U, 2U, 3U}) config.execution.recompute->at(i).*scope = true;
      auto const plan = mpt::plan_run<float>(config, 1);
      CHECK(plan.memory.activations < without_recomputing.memory.activations);
      CHECK(plan.without_recomputation.activations == without_recomputing.memory.activations);
      CHECK(plan.microbatch.operations > plan.without_recomputation.operations);
      CHECK(plan.recomputed_per_token(12) * 3 * 12 ==
            static_cast<double>(plan.memory.operations - without_recomputing.memory.operations));
      check<float>(config, 2);
    }
  auto config = configuration(true);
  CHECK(mpt::plan_run<float>(config, 1).recomputed_per_token(12) == 0);
  config.execution.recompute = mpt::recompute_all(2);
  auto const text = describe_plan(config, mpt::plan_run<bf16>(config, 1), 1, 3);
  CHECK(text.find("in 2 of 2 blocks: activations of a microbatch ") != std::string::npos);
}

// Korthikanti et al., 2022, table 2: with full recomputation a layer keeps only its output, 2 s b h
// bytes in bf16. Otherwise it keeps 34 s b h with dropout's masks, 32 without, and 28 where the
// attention probabilities and the activations of softmax and dropout are recomputed.
TEST_CASE("run plan: a recomputed block keeps one activation") {
  auto config = configuration(true).model;
  config.d_model = 64;
  config.n_heads = 4;
  auto const stage_bytes = [&](index layers, bool recomputes) {
    config.n_layers = layers;
    mpt::model<bf16> const net(config, {},
                               recomputes ? mpt::recompute_all(static_cast<std::size_t>(layers))
                                          : mpt::block_recomputation{});
    return train::bytes_of_stage(net, train::whole_model(net), train::backward_halves::together,
                                 sequences::shape_of(4, 16), parallel::pass::training);
  };
  std::size_t const sbh = 4 * 16 * 64;
  CHECK(stage_bytes(5, true).slot - stage_bytes(4, true).slot == 2 * sbh);
  CHECK(stage_bytes(5, true).scratch == stage_bytes(4, true).scratch);  // of one block at a time
  CHECK(stage_bytes(5, false).slot - stage_bytes(4, false).slot > 20 * sbh);
}

TEST_CASE("run plan: an evaluation batch larger than a microbatch determines the arena's size") {
  auto config = configuration(false);
  config.data.device_train_microbatch_size = 1;
  auto const without_evaluation = mpt::plan_run<float>(config, 1);
  config.data.eval_loaders.push_back(config.data.train_loader);
  config.evaluation.device_eval_batch_size = 60;
  auto const with_evaluation = mpt::plan_run<float>(config, 1);
  CHECK(with_evaluation.memory.activations > without_evaluation.memory.activations);
  CHECK(with_evaluation.memory.operations == without_evaluation.memory.operations);
  check<float>(config, 1);
}

TEST_CASE("run plan: a smaller last batch has room, also if its logits make fewer, larger chunks") {
  auto config = configuration(true);
  config.model.vocab_size = 50'000;  // chunks of up to 2560 rows
  config.model.max_seq_len = config.data.train_loader.max_seq_len = 512;
  auto const needed = [&](index count) {
    mpt::model<float> const net(config.model);
    return train::plan_evaluation(net, sequences::shape_of(count, 512));
  };
  REQUIRE(needed(5) > needed(6));  // 2560 rows at once, or twice 1536
  config.data.global_train_batch_size = 1;
  config.data.eval_loaders = {config.data.train_loader};
  for (index const count : {5, 6, 8}) {
    config.evaluation.device_eval_batch_size = count;
    CHECK(mpt::plan_run<float>(config, 1).memory.activations == needed(5));
  }
  config.data.eval_loaders.clear();
  config.data.global_train_batch_size = 11;
  config.data.device_train_microbatch_size = 6;  // microbatches of 6 and 5
  auto const step = [&](index count) {
    mpt::model<float> const net(config.model);
    return train::plan_microbatch(net, sequences::shape_of(count, 512));
  };
  auto const plan = mpt::plan_run<float>(config, 1);
  // the activations of 6 sequences, and the temporaries of 5
  CHECK(plan.memory.activations > step(5).activations);
  CHECK(plan.memory.activations < 2 * step(5).activations);
  CHECK(plan.memory.operations == step(6).operations);
  config.data.device_train_microbatch_size = 11;
  CHECK(mpt::plan_run<float>(config, 1).memory.activations == step(11).activations);
}

TEST_CASE("run plan: an automatic microbatch is the whole batch of a rank where that fits") {
  auto config = configuration(false);
  auto const plan = mpt::plan_run<float>(config, 3);
  CHECK(plan.is_microbatch_automatic);
  CHECK(plan.split.device_batch == 4);
  CHECK(plan.split.microbatch == 4);
  CHECK(plan.split.accumulation == 1);
  config.data.device_train_microbatch_size = 3;
  auto const chosen = mpt::plan_run<float>(config, 3);
  CHECK_FALSE(chosen.is_microbatch_automatic);
  CHECK(chosen.split.microbatch == 3);
  CHECK(chosen.split.accumulation == 2);
}

TEST_CASE("run plan: cheap operations are recomputed where that lets a larger microbatch fit") {
  auto config = configuration(true);  // rows of 12, and a width of 24
  config.model.n_layers = 8;
  config.data.global_train_batch_size = 8;
  auto const cheap = mpt::with_cheap_recomputation({}, 8);
  auto const planned_bytes = [&](index microbatch, mpt::block_recomputation const& recompute) {
    auto forced = config;
    forced.data.device_train_microbatch_size = microbatch;
    forced.execution.recompute = recompute;
    return mpt::plan_run<bf16>(forced, 1).memory.total();
  };
  auto const keeping_bytes = planned_bytes(2, {}), recomputing_bytes = planned_bytes(2, cheap);
  REQUIRE(planned_bytes(1, {}) < recomputing_bytes);
  REQUIRE(recomputing_bytes < keeping_bytes);
  REQUIRE(keeping_bytes < planned_bytes(4, cheap));
  auto const check_choice = [&](std::size_t available, index microbatch, bool chosen) {
    CAPTURE(available);
    auto const plan = mpt::plan_run<bf16>(config, 1, available);
    CHECK(plan.split.microbatch == microbatch);
    CHECK(plan.recompute == (chosen ? cheap : mpt::block_recomputation()));
    CHECK((describe_plan(config, plan, 1, 3)
               .find("norms and activation functions (automatic), in "
                     "8 of 8 blocks") != std::string::npos) == chosen);
    CHECK(fits(plan) == (available == 0 || planned_bytes(microbatch, plan.recompute) <= available));
  };
  check_choice(recomputing_bytes, 2, true);
  check<bf16>(config, 1, recomputing_bytes);
  check_choice(recomputing_bytes - 1, 1, false);
  check_choice(keeping_bytes, 2, false);
  check_choice(planned_bytes(1, cheap), 1, true);  // the only plan that fits
  check_choice(planned_bytes(1, cheap) - 1, 1, false);
  check_choice(0, 8, false);
  auto const open = config;
  config.execution.recompute.emplace();  // the user sets: recompute nothing
  check_choice(recomputing_bytes, 1, false);
  config = open;
  config.data.device_train_microbatch_size = 2;  // fits by recomputation
  check_choice(recomputing_bytes, 2, true);
  config = open;
  config.data.train_loader.max_seq_len = config.model.max_seq_len =
      48;  // with 2 x 24 rows or more, recomputation does not pay
  check_choice(planned_bytes(2, cheap), 1, false);
}

TEST_CASE("run plan: spare memory avoids exchanges of values, then of gradients") {
  auto config = configuration(true);
  config.model.n_layers = 12;
  config.execution.recompute.emplace();
  config.execution.zero_stage = 3;
  config.execution.parallelism.pipeline = 2;
  auto const forced_bytes = [&](bool reshard, bool every_microbatch) {
    auto forced = config;
    forced.data.device_train_microbatch_size = 3;
    forced.execution.reshard_after_forward = reshard;
    forced.execution.reduce_every_microbatch = every_microbatch;
    return mpt::plan_run<bf16>(forced, 4).memory.total();
  };
  auto const lean_bytes = forced_bytes(true, true), values_bytes = forced_bytes(false, true),
             both_bytes = forced_bytes(false, false);
  CHECK(lean_bytes < values_bytes);
  CHECK(values_bytes < both_bytes);
  auto const check_choice = [&](std::size_t available, bool reshard, bool every_microbatch) {
    CAPTURE(available);
    auto const plan = mpt::plan_run<bf16>(config, 4, available);
    CHECK(plan.reshard_after_forward == reshard);
    CHECK(plan.reduce_every_microbatch == every_microbatch);
    CHECK(plan.memory.total() == forced_bytes(reshard, every_microbatch));
    for (auto const& rank_plan : mpt::step_plans_of<bf16>(
             config.model, config.optimizer, config.execution, config.run, plan, false)) {
      std::size_t unshards = 0, scatters = 0;
      for (auto const& a : rank_plan.actions) {
        unshards += a.kind == train::action_kind::unshard ? 1 : 0;
        scatters += a.kind == train::action_kind::reduce_scatter ? 1 : 0;
      }
      CHECK((unshards == rank_plan.units.size()) == !reshard);
      CHECK((scatters > 0) == every_microbatch);
    }
  };
  config.data.device_train_microbatch_size = 3;
  check_choice(lean_bytes - 1, true, true);
  check_choice(values_bytes - 1, true, forced_bytes(true, false) > values_bytes - 1);
  check_choice(values_bytes, false, true);
  check_choice(both_bytes - 1, false, true);
  check_choice(both_bytes, false, false);
  check_choice(0, false, false);                    // unknown
  config.execution.reduce_every_microbatch = true;  // set by the user
  CHECK(mpt::plan_run<bf16>(config, 4).reduce_every_microbatch);
  config.execution.reduce_every_microbatch.reset();
  config.data.device_train_microbatch_size.reset();  // the largest microbatch that fits comes first
  auto without_savings = config;
  without_savings.execution.reshard_after_forward =
      without_savings.execution.reduce_every_microbatch = true;
  for (std::size_t const available : {lean_bytes, values_bytes, both_bytes})
    CHECK(mpt::plan_run<bf16>(config, 4, available).split.microbatch ==
          mpt::plan_run<bf16>(without_savings, 4, available).split.microbatch);
  config.model.n_layers = 2;  // all layers fit into the buffers
  auto const small_model = mpt::plan_run<bf16>(config, 4, 1);
  CHECK_FALSE(small_model.reshard_after_forward);
  CHECK_FALSE(small_model.reduce_every_microbatch);
  config.model.n_layers = 12;
  config.execution.parallelism.pipeline = 1;  // one microbatch, so that nothing is accumulated
  CHECK(mpt::plan_run<bf16>(config, 4).reduce_every_microbatch);
  auto const text = mpt::describe_plan(config, mpt::plan_run<bf16>(config, 4), 4, 3);
  CHECK(test::contains(text,
                       "values are gathered once a step (automatic), gradients are reduced "
                       "after every microbatch (automatic)"));
}

TEST_CASE("run plan: a far too large model is refused at a microbatch of 1, with advice") {
  auto config = configuration(false);
  config.model.d_model = 98304;
  config.model.n_heads = 96;
  config.model.n_layers = 96;
  auto const plan = mpt::plan_run<bf16>(config, 1, std::size_t{64} << 30);
  CHECK(plan.split.microbatch == 1);
  auto const message = test::message_of([&] { require_fits(plan); });
  CHECK(test::contains(message, "this run needs "));
  CHECK(test::contains(message, "at a microbatch of 1; use a smaller model, microbatch"));
  auto fitting = plan;
  fitting.available = plan.memory.total();
  CHECK_NOTHROW(require_fits(fitting));
  --fitting.available;
  CHECK_THROWS_AS(require_fits(fitting), parallel::error);
  fitting.available = 0;  // unknown: nothing is refused
  CHECK_NOTHROW(require_fits(fitting));
}

TEST_CASE_TEMPLATE("run plan: a rank's share of a checkpoint holds master weights and states once",
                   T, float, bf16) {
  auto config = configuration(true);
  auto const numbers = static_cast<std::size_t>(parameter_count(config.model));
  auto const saved_bytes = [&](int ranks) {
    return mpt::bytes_to_save(config.checkpoint, mpt::plan_run<T>(config, ranks).memory);
  };
  std::size_t const whole_bytes = saved_bytes(1);
  CHECK(whole_bytes >= 12 * numbers);  // weights and two states in fp32
  CHECK(whole_bytes < 13 * numbers);   // units are padded
  for (int const stage : {0, 1, 3}) {
    config.execution.zero_stage = stage;
    CHECK(saved_bytes(2) >= whole_bytes / 2);
    CHECK(saved_bytes(2) < whole_bytes * 11 / 20);
  }
  config.execution.zero_stage = 0;
  config.optimizer.disable_grad = {{"wte", ""}};  // saved in its own precision, without states
  auto const frozen =                             // padded to whole cache lines
      static_cast<std::size_t>((config.model.vocab_size * config.model.d_model + 31) / 32 * 32);
  CHECK(whole_bytes - saved_bytes(1) == frozen * (12 - sizeof(T)));
  config.optimizer.disable_grad.clear();
  config.checkpoint.save_weights_only = true;
  CHECK(3 * saved_bytes(1) == whole_bytes);
}

TEST_CASE("run plan: with adapters, operations omit the gradients of frozen weights") {
  auto config = configuration(true);
  config.model.d_model = 96;
  auto const counted = [&] {
    return static_cast<double>(mpt::plan_run<float>(config, 1).memory.operations) / (12 * 12);
  };
  auto const whole = counted();
  auto const by_formula = static_cast<double>(flops_per_token(config.model, 12));
  config.model.lora =
      mpt::lora_config{.rank = 4, .targets = {"Wqkv", "out_proj", "up_proj", "down_proj"}};
  CHECK(static_cast<double>(flops_per_token(config.model, 12)) - by_formula ==
        doctest::Approx(counted() - whole).epsilon(0.03));
}

TEST_CASE("run plan: copies for saves use spare memory and never reduce the microbatch") {
  auto config = configuration(true);
  config.checkpoint.save_folder = "run";
  auto const saves_in_background = [&](std::size_t available,
                                       std::optional<std::size_t> host = {}) {
    auto const plan = mpt::plan_run<bf16>(config, 1, available, host);
    CHECK(plan.split.microbatch == 12);
    CHECK(test::contains(describe_plan(config, plan, 1, 3), "no memory for a copy") !=
          plan.saves_in_background);
    return plan.saves_in_background;
  };
  for (bool const offload : {false, true}) {
    config.execution.offload_optimizer = offload;
    auto const memory = mpt::plan_run<bf16>(config, 1).memory;
    auto const save_bytes = bytes_to_save(config.checkpoint, memory);
    CHECK((memory.offloaded > 0) == offload);
    CHECK(saves_in_background(0));  // unknown
    CHECK(saves_in_background(memory.total() + save_bytes));
    CHECK_FALSE(saves_in_background(memory.total() + save_bytes - 1));
    // with a device's memory, from which operations take scratch, in addition to the host's
    auto const device_memory = mpt::plan_run<bf16>(config, 1, 0, 0).memory;
    CHECK(device_memory.scratch.compute == std::size_t{32} << 20);  // of products
    CHECK(device_memory.total() == memory.total() + device_memory.scratch.compute);
    CHECK(saves_in_background(device_memory.total(), memory.offloaded + save_bytes));
    CHECK_FALSE(saves_in_background(device_memory.total(), memory.offloaded + save_bytes - 1));
    CHECK(saves_in_background(device_memory.total(), 0));
  }
}

TEST_CASE("describe_plan: the table has the layout and the memory of every pipeline rank") {
  auto config = configuration(false);
  config.model.n_heads = 4;
  config.model.n_layers = 3;
  config.model.vocab_size = 38;
  config.execution.zero_stage = 3;
  config.execution.parallelism.tensor = config.execution.parallelism.pipeline = 2;
  config.data.device_train_microbatch_size = 3;
  auto const plan = mpt::plan_run<float>(config, 8, 8);
  REQUIRE(plan.by_pipeline_rank.size() == 2);
  CHECK(plan.memory.total() ==
        std::max(plan.by_pipeline_rank[0].total(), plan.by_pipeline_rank[1].total()));
  CHECK(plan.by_pipeline_rank[0].total() != plan.by_pipeline_rank[1].total());
  auto const text = mpt::describe_plan(config, plan, 8, 3);
  for (char const* const part :
       {"8: pipeline 2 x shard 2 x tensor 2, ZeRO stage 3", "1f1b, 2 stages of 2 and 1 blocks",
        "12 sequences of 12 = 2 data ranks × 2 microbatches of 3", "by pipeline rank"}) {
    CAPTURE(part);
    CHECK(test::contains(text, part));
  }
  CHECK_FALSE(test::contains(text, "operations' scratch"));  // not planned on the host

  config.execution.parallelism.overlap_weight_gradients = true;
  auto on_gpus = mpt::plan_run<float>(config, 8, 0, 0);
  CHECK(on_gpus.memory.scratch.compute == std::size_t{32} << 20);  // a matrix product's
  CHECK(on_gpus.memory.scratch.weights == std::size_t{32} << 20);  // their own stream
  CHECK(test::contains(mpt::describe_plan(config, on_gpus, 8, 3), "  operations' scratch "));
  on_gpus.available = on_gpus.memory.total() - 1;
  CHECK(test::contains(test::message_of([&] { require_fits(on_gpus); }),
                       "operations' scratch " + mpt::console::bytes(0x1p26) + ", activations "));
  config.execution.parallelism.overlap_weight_gradients = false;
  auto const uneven = mpt::describe_plan(config, mpt::plan_run<float>(config, 20, 20), 20, 3);
  CHECK(test::contains(uneven,
                       "12 sequences of 12 = 5 data ranks × 1 microbatches of 3; 2 have 3 "
                       "sequences, 3 one less"));
  config.execution.parallelism.tensor = 5;
  CHECK(test::message_of([&] {
          (void)mpt::plan_run<float>(config, 8, 8);
        }).starts_with("parallelism: this layout is not possible:"));
}

TEST_CASE("describe_plan: the table has model, batch and memory") {
  auto config = configuration(true);
  config.data.device_train_microbatch_size = 5;
  auto const text = mpt::describe_plan(config, mpt::plan_run<float>(config, 2, 2), 2, 3);
  CHECK_FALSE(test::contains(text, "unit buffers"));
  auto sharded = config;
  sharded.execution.zero_stage = 3;
  sharded.execution.parallelism.shard = 2;
  auto const shards_text = mpt::describe_plan(sharded, mpt::plan_run<float>(sharded, 4, 4), 4, 3);
  CHECK(test::contains(shards_text, "4: replicate 2 x shard 2, ZeRO stage 3"));
  CHECK(test::contains(shards_text, "  unit buffers"));
  for (char const* const part :
       {"plan of tiny", "2 layers × 24, 3 heads, vocabulary 37, ALiBi",
        "2: replicate 2, ZeRO stage 0", "12 sequences of 12 = 2 ranks × 2 microbatches of 5",
        "memory per rank"}) {
    CAPTURE(part);
    CHECK(test::contains(text, part));
  }
}

}  // namespace
}  // namespace mpt_plan_test
