// Tests of whole configurations: LLM Foundry's files, the messages for malformed ones, the frozen
// list of keys, and that no mutation of a file does anything but load or give one message.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/sizes.hpp>
#include <mpt/config/read_train.hpp>
#include <mpt/yaml/document.hpp>
#include <parallel/core/philox.hpp>
#include <parallel/support/files.hpp>
#include <support/checkout.hpp>
#include <support/data.hpp>
#include <support/known_keys.hpp>

#include "mpt/config/refused_settings.hpp"

namespace read_train_test {

inline std::string const base = R"(
variables:
  len: 128
  run_name:
max_seq_len: ${variables.len}
run_name: ${variables.run_name}
model:
  name: mpt_causal_lm
  d_model: 64
  n_heads: 4
  n_layers: 2
  max_seq_len: ${variables.len}
  vocab_size: 512
tokenizer:
  name: gpt2
train_loader:
  name: text
  dataset:
    local: ./data
    split: train
optimizer:
  name: decoupled_adamw
  lr: 6.0e-4
scheduler:
  name: cosine_with_warmup
  t_warmup: 10ba
max_duration: 100ba
global_train_batch_size: 8
)";

using overrides = std::vector<std::string>;

inline mpt::train_config read(overrides const& changes, std::string const& text = base) {
  return mpt::read_train_config(mpt::make_document(text, "t.yaml", changes));
}

inline std::string problem(overrides const& changes, std::string const& text = base) {
  return test::message_of([&] { static_cast<void>(read(changes, text)); });
}

TEST_CASE("training configuration: a short file has LLM Foundry's defaults") {
  auto const config = read({});
  CHECK(config.run.name == "mpt");
  CHECK(config.data.max_seq_len == 128);
  CHECK(config.data.train_loader.max_seq_len == 128);
  CHECK(config.run.seed == 17);
  CHECK(config.execution.precision == mpt::precision_kind::amp_bf16);
  CHECK(!config.data.device_train_microbatch_size);
  CHECK(config.evaluation.device_eval_batch_size == 1);
  CHECK(mpt::to_string(config.evaluation.eval_interval) == "1ep");
  CHECK(config.evaluation.eval_subset_num_batches == -1);
  CHECK(mpt::to_string(config.checkpoint.save_interval) == "1000ba");
  CHECK(config.checkpoint.save_num_checkpoints_to_keep == -1);
  CHECK(config.output.log_to_console);
  CHECK(!config.output.progress_bar);
  CHECK(config.callbacks.speed_window == 100);
  CHECK(config.run.dist_timeout == 600);
  CHECK(config.optimizer.clip == parallel::train::clipping{});
  CHECK(config.data.eval_loaders.empty());
  CHECK(config.execution.zero_stage == 0);
  CHECK(config.output.report.notes.empty());
  CHECK(config.output.report.ignored.empty());
}

TEST_CASE("training configuration: a setting that other settings disable is reported") {
  auto const config = read({"save_interval=2ba", "train_loader.dataset.max_seq_len=64",
                            "max_duration=5ba", "scheduler.t_warmup=100ba"});
  CHECK(mpt::describe_ignored(config.output.report) ==
        "accepted and without effect here: max_seq_len (train_loader.dataset.max_seq_len is 64); "
        "save_interval (there is no save_folder)");
  REQUIRE(config.output.report.notes.size() == 1);
  CHECK(config.output.report.notes[0] ==
        "scheduler.t_warmup 100ba is not shorter than max_duration 5ba: the learning rate does not "
        "come to its value");
}

TEST_CASE("training configuration: written values replace the defaults") {
  auto const config =
      read({"run_name=first", "save_folder=./{run_name}/checkpoints", "autoresume=true",
            "metrics_file=./{run_name}.jsonl", "device_train_microbatch_size=4", "precision=fp32",
            "eval_interval=10ba", "save_interval=0.5dur", "max_duration=2e9tok", "seed=5",
            "local_save_folder=/scratch/{run_name}/{node_rank}", "local_save_interval=5ba",
            "algorithms.gradient_clipping={clipping_type: norm, clipping_threshold: 1.0}"});
  CHECK(config.checkpoint.save_folder == "./first/checkpoints");
  CHECK(config.checkpoint.local_save_folder == "/scratch/first/{node_rank}");
  CHECK(mpt::to_string(config.checkpoint.local_save_interval) == "5ba");
  CHECK(config.checkpoint.autoresume);
  CHECK(config.output.metrics_file == "./first.jsonl");
  CHECK(config.data.device_train_microbatch_size == 4);
  CHECK(config.evaluation.device_eval_batch_size == 4);
  CHECK(config.execution.precision == mpt::precision_kind::fp32);
  CHECK(config.optimizer.clip ==
        parallel::train::clipping{parallel::train::clipping_kind::norm, 1.0});
  CHECK(config.run.seed == 5);
  CHECK(mpt::total_batches(mpt::clock_of(config.data, config.run)) == 1953125);
  CHECK(!read({"device_train_microbatch_size=auto"}).data.device_train_microbatch_size);
}

TEST_CASE("run_name: a blank one comes from $RUN_NAME or the file's name") {
  auto const document = mpt::make_document(base, "t.yaml");
  CHECK(mpt::read_train_config(document, {.run_name = "from-env"}).run.name == "from-env");
  CHECK(
      mpt::read_train_config(document, {.run_name = "", .default_run_name = "mpt-125m"}).run.name ==
      "mpt-125m");
  CHECK(mpt::process_environment("a/mpt 125m.v1.yaml").default_run_name == "mpt-125m.v1");
  CHECK_THROWS_WITH_AS(static_cast<void>(mpt::read_train_config(document, {.run_name = "../x"})),
                       "$RUN_NAME: '../x' cannot name a run; use letters, digits, '-', '_' and '.'",
                       parallel::error);
}

TEST_CASE("training configuration: each malformed one gives one exact message") {
  for (auto const& example : test::refused_settings("the whole"))
    CHECK(problem(example.lines()) == example.expected);
  CHECK(problem({}, "a: 1") == "t.yaml: max_seq_len: missing; it is required");
}

TEST_CASE(
    "training configuration: every pretraining YAML of LLM Foundry loads with the size in its "
    "name") {
  auto const data = test::data_folder();
  if (data.empty()) return;
  auto const folder = data / "mpt" / "yamls" / "pretrain";
  for (auto const& size : mpt::model_sizes) {
    CAPTURE(size.name);
    auto const config =
        mpt::load_train_config(folder / ("mpt-" + std::string(size.name) + ".yaml"), overrides{});
    CHECK(config.model == mpt::named_size(size.name));
    CHECK(config.optimizer.beta2 == 0.95);
    CHECK(config.optimizer.weight_decay == 0);
    CHECK(config.optimizer.clip ==
          parallel::train::clipping{parallel::train::clipping_kind::norm, 1.0});
    CHECK(config.execution.zero_stage == 3);  // FULL_SHARD
    CHECK(config.data.eval_loaders.size() == 1);
    CHECK(config.data.train_loader.shuffle_seed == 17);
    CHECK(config.data.train_loader.streams[0].local == "./my-copy-c4");
    CHECK(mpt::learning_rate_multiplier(config.optimizer.scheduler,
                                        mpt::total_batches(mpt::clock_of(config.data, config.run)),
                                        mpt::clock_of(config.data, config.run)) == 0.1);
  }
  auto const small = mpt::load_train_config(
      folder / "mpt-125m.yaml",
      overrides{"model.n_layers=2", "max_duration=20ba", "ranks=2", "zero_stage=0",
                "variables.max_seq_len=256", "save_folder=./{run_name}/checkpoints"});
  CHECK(small.model.n_layers == 2);
  CHECK(small.model.max_seq_len == 256);
  CHECK(small.execution.ranks == 2);
  CHECK(small.execution.zero_stage == 0);
  CHECK(small.checkpoint.save_folder == "./mpt-125m/checkpoints");
  auto const cpu = mpt::load_train_config(folder / "mpt-small-cpu.yaml", overrides{});
  CHECK(cpu.run.name == "mpt_causal_lm_cpu");
  CHECK(mpt::ffn_hidden(cpu.model) == 80);
  CHECK(cpu.execution.precision == mpt::precision_kind::fp32);
  CHECK(mpt::load_train_config(folder / "testing.yaml", overrides{}).model.d_model == 128);
}

TEST_CASE(
    "training configuration: the ignored keys of a pretraining YAML are reported in one line") {
  auto const data = test::data_folder();
  if (data.empty()) return;
  auto const config =
      mpt::load_train_config(data / "mpt" / "yamls" / "pretrain" / "mpt-125m.yaml", overrides{});
  CHECK(mpt::describe_ignored(config.output.report) ==
        "accepted and without effect here: model.attn_config.attn_impl (attention has one "
        "implementation per device); model.init_device (weights are created on the device that "
        "trains them); "
        "tokenizer.kwargs.model_max_length (sequences have max_seq_len tokens); "
        "train_loader.num_workers, eval_loader.num_workers (batches are read ahead without worker "
        "processes); eval_loader.dataset.shuffle_seed (evaluation takes what it takes in the order "
        "it "
        "has); callbacks.lr_monitor, callbacks.memory_monitor (always on); "
        "fsdp_config.activation_checkpointing_reentrant, "
        "fsdp_config.activation_cpu_offload, fsdp_config.limit_all_gathers (sharding needs no such "
        "choice here)");
}

// Change that list on purpose only: files of users depend on it.
TEST_CASE("training configuration: the effective keys are those of effective_keys.txt") {
  std::string found;
  for (auto const& key : test::known_keys())
    if (key.role == mpt::key_role::effective && !key.name.starts_with("eval_loader."))
      found += key.name + "\n";
  CHECK(found ==
        test::read_all(test::checkout() / "tests" / "mpt" / "config" / "effective_keys.txt"));
}

TEST_CASE("training configuration: LLM Foundry's ineffective and unsupported keys are known") {
  auto const role_of = [known = test::known_keys()](std::string_view name) {
    for (auto const& key : known)
      if (key.name == name) return static_cast<int>(key.role);
    return -1;
  };
  for (std::string const name :
       {"train_loader.num_workers", "train_loader.pin_memory", "train_loader.prefetch_factor",
        "train_loader.persistent_workers", "train_loader.timeout",
        "train_loader.dataset.validate_hash", "fsdp_config.limit_all_gathers",
        "fsdp_config.activation_checkpointing_reentrant", "model.attn_config.attn_impl",
        "model.loss_fn", "model.init_device", "model.use_train_metrics", "code_paths",
        "max_split_size_mb", "expandable_segments", "callbacks.lr_monitor",
        "callbacks.memory_monitor", "callbacks.nan_monitor"})
    CHECK_MESSAGE(role_of(name) == static_cast<int>(mpt::key_role::without_effect), name);
  for (std::string const name : {"loggers.mosaicml", "callbacks.system_metrics_monitor",
                                 "algorithms.alibi", "model.attn_config.prefix_lm"})
    CHECK_MESSAGE(role_of(name) == static_cast<int>(mpt::key_role::restricted), name);
}

TEST_CASE("training configuration: the report of an ignored key gives the reason") {
  auto const summary = mpt::describe_ignored(read({}, base + "metadata: {a: 1}\n").output.report);
  CHECK(summary.find("metadata (no logger here takes it)") != std::string::npos);
}

TEST_CASE("training configuration: a randomly mutated one loads or gives one message") {
  parallel::philox const random(17, parallel::stream_id("mutations"));
  std::string const pieces[] = {"${variables.len}",
                                "${",
                                "}",
                                "*a",
                                "&a ",
                                "- ",
                                ": ",
                                "\n",
                                "  ",
                                "[",
                                "]",
                                "{",
                                "'",
                                "\"",
                                "!!x ",
                                "1e999",
                                "-1",
                                "null",
                                "<<: ",
                                "\t"};
  std::size_t loaded = 0;
  std::uint64_t draw = 0;
  auto const random_below = [&](std::size_t bound) { return random.bits(draw++) % bound; };
  for (int round = 0; round < 2000; ++round) {
    std::string text = base;
    for (auto mutations = 1 + random_below(4); mutations > 0; --mutations) {
      auto const offset = random_below(text.size());
      switch (random_below(4)) {
        case 0: text[offset] = static_cast<char>(random_below(256)); break;
        case 1: text.erase(offset, 1 + random_below(20)); break;
        case 2: text.insert(offset, pieces[random_below(std::size(pieces))]); break;
        default: text.insert(offset, text.substr(random_below(text.size()), random_below(60)));
      }
    }
    try {
      static_cast<void>(read({}, text));
      ++loaded;
    } catch (parallel::error const& error) {
      CHECK(std::string(error.what()).size() > 5);
    }
  }
  CHECK(loaded > 5);
  CHECK(loaded < 1900);
}

}  // namespace read_train_test
