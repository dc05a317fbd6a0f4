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
    CHECK(problem(example.lines()) == example.message);
  CHECK(problem({}, "a: 1") == "t.yaml: max_seq_len: missing; it is required");
}

TEST_CASE(
    "training configuration: every pretraining YAML of LLM Foundry loads with the size in its "
    "name") {
  auto const data = test::data_folder();
  if (data.empty()) {
    MESSAGE("skipped: no ../shared/data");
    return;
  }
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
  if (data.empty()) {
    MESSAGE("skipped: no ../shared/data");
    return;
  }
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

// Change this list on purpose only: files of users depend on it.
TEST_CASE("training configuration: the list of effective keys") {
  std::string found;
  for (auto const& key : test::known_keys())
    if (key.role == mpt::key_role::effective && !key.name.starts_with("eval_loader."))
      found += (found.empty() ? "" : " ") + key.name;
  CHECK(
      found ==
      "algorithms algorithms.gradient_clipping algorithms.gradient_clipping.clipping_threshold "
      "algorithms.gradient_clipping.clipping_type "
      "autoresume bucket_bytes callbacks callbacks.early_stopper callbacks.generate_callback "
      "callbacks.hf_checkpointer "
      "callbacks.kill_loss_spike callbacks.layer_freezing callbacks.optimizer_monitor "
      "callbacks.runtime_estimator callbacks.runtime_estimator.skip_batches "
      "callbacks.runtime_estimator.time_unit callbacks.speed_monitor "
      "callbacks.speed_monitor.gpu_flops_available callbacks.speed_monitor.time_unit "
      "callbacks.speed_monitor.window_size "
      "console_log_interval corruption_check corruption_check.interval "
      "corruption_check.on_transient cuda_graphs dataset deadlines deadlines.first_step "
      "deadlines.load "
      "deadlines.save deadlines.setup deadlines.step deterministic device "
      "device_eval_batch_size "
      "device_memory device_train_microbatch_size dist_timeout "
      "dry_run eval_first eval_gauntlet eval_gauntlet_str eval_interval eval_loader "
      "eval_subset_num_batches fsdp_config "
      "fsdp_config.activation_checkpointing fsdp_config.data_parallel_replicate_degree "
      "fsdp_config.data_parallel_shard_degree fsdp_config.mixed_precision "
      "fsdp_config.reshard_after_forward fsdp_config.sharding_strategy global_train_batch_size "
      "icl_seq_len icl_subset_num_batches icl_tasks icl_tasks_str keep_every "
      "load_path load_weights_only local_save_folder local_save_interval "
      "log_to_console loggers "
      "loggers.csv loggers.csv.filename loggers.mlflow loggers.mlflow.experiment_name "
      "loggers.mlflow.flush_interval loggers.mlflow.ignore_hyperparameters "
      "loggers.mlflow.ignore_metrics loggers.mlflow.logging_buffer_seconds "
      "loggers.mlflow.rename_metrics loggers.mlflow.run_group loggers.mlflow.run_name "
      "loggers.mlflow.tags loggers.mlflow.tracking_uri loggers.tensorboard "
      "loggers.tensorboard.log_dir loggers.trackio loggers.trackio.group "
      "loggers.trackio.init_kwargs loggers.trackio.init_kwargs.resume loggers.trackio.name "
      "loggers.trackio.project loggers.trackio.python loggers.wandb loggers.wandb.entity "
      "loggers.wandb.group loggers.wandb.init_kwargs loggers.wandb.init_kwargs.dir "
      "loggers.wandb.init_kwargs.id loggers.wandb.init_kwargs.job_type "
      "loggers.wandb.init_kwargs.mode loggers.wandb.init_kwargs.notes "
      "loggers.wandb.init_kwargs.resume loggers.wandb.name loggers.wandb.project "
      "loggers.wandb.python loggers.wandb.tags "
      "max_duration "
      "max_seq_len metrics_file mirrors model model.activation_checkpointing_target "
      "model.attention_bias "
      "model.attn_config model.attn_config.alibi model.attn_config.alibi_bias_max "
      "model.attn_config.attn_logit_softcapping "
      "model.attn_config.attn_pdrop model.attn_config.attn_temperature_tuning "
      "model.attn_config.attn_temperature_tuning.attn_scale "
      "model.attn_config.attn_temperature_tuning.floor_scale model.attn_config.attn_type "
      "model.attn_config.attn_uses_sequence_id model.attn_config.clip_qkv "
      "model.attn_config.fused_qkv model.attn_config.kv_dim model.attn_config.kv_n_heads "
      "model.attn_config.norm_type model.attn_config.qk_gn "
      "model.attn_config.qk_ln model.attn_config.qk_norm_eps model.attn_config.rope "
      "model.attn_config.sliding_window_size "
      "model.attn_config.softmax_scale model.block_overrides model.d_model model.emb_pdrop "
      "model.embedding_fraction model.expansion_ratio model.family model.fc_type "
      "model.ffn_config "
      "model.ffn_config.fc_type model.ffn_config.ffn_act_fn "
      "model.ffn_config.ffn_act_fn.approximate model.ffn_config.ffn_act_fn.name "
      "model.ffn_config.ffn_hidden_size model.ffn_config.ffn_type model.final_logit_softcapping "
      "model.head_dim model.init_config model.init_config.emb_init_std "
      "model.init_config.emb_init_uniform_lim model.init_config.fan_mode "
      "model.init_config.init_div_is_residual model.init_config.init_gain "
      "model.init_config.init_nonlinearity model.init_config.init_std model.init_config.name "
      "model.learned_pos_emb model.logit_scale model.max_seq_len model.n_heads model.n_layers "
      "model.name model.no_bias model.norm_eps model.norm_type "
      "model.out_proj_bias model.parallel_residual model.peft_config "
      "model.pretrained_lora_id_or_path model.resid_pdrop "
      "model.tie_word_embeddings model.vocab_size offload_optimizer on_not_finite optimizer "
      "optimizer.betas optimizer.disable_grad optimizer.eps optimizer.lr optimizer.name "
      "optimizer.param_groups optimizer.weight_decay parallelism parallelism.blocks_by_stage "
      "parallelism.context parallelism.context_method parallelism.overlap_weight_gradients "
      "parallelism.pipeline parallelism.replicate "
      "parallelism.schedule parallelism.sequence_parallel parallelism.shard "
      "parallelism.stages_per_rank parallelism.tensor precision "
      "preflight print_plan profile progress_bar ranks reduce_dtype reduce_every_microbatch "
      "reduction_order "
      "run_name "
      "save_folder "
      "save_interval "
      "save_num_checkpoints_to_keep "
      "save_overwrite save_weights_only scheduler scheduler.alpha_f scheduler.alpha_i "
      "scheduler.name scheduler.t_max "
      "scheduler.t_warmup seed spike_check spike_check.deviations spike_check.on_spike "
      "spike_check.window threads tokenizer tokenizer.kwargs "
      "tokenizer.name tp_config tp_config.strategy tp_config.tensor_parallel_degree "
      "train_loader train_loader.dataset train_loader.dataset.allow_pad_trimming "
      "train_loader.dataset.bos_token_id train_loader.dataset.cache_limit "
      "train_loader.dataset.download_retry train_loader.dataset.download_timeout "
      "train_loader.dataset.eos_token_id train_loader.dataset.epoch_size "
      "train_loader.dataset.hf_kwargs train_loader.dataset.hf_kwargs.data_dir "
      "train_loader.dataset.hf_kwargs.data_files train_loader.dataset.hf_kwargs.name "
      "train_loader.dataset.hf_name "
      "train_loader.dataset.local train_loader.dataset.max_leftover_bins_to_keep "
      "train_loader.dataset.max_seq_len train_loader.dataset.packing_ratio "
      "train_loader.dataset.pad_to_longest train_loader.dataset.predownload "
      "train_loader.dataset.preprocessing_fn train_loader.dataset.preprocessing_fn.prompt "
      "train_loader.dataset.preprocessing_fn.response "
      "train_loader.dataset.remote train_loader.dataset.shuffle "
      "train_loader.dataset.shuffle_algo train_loader.dataset.shuffle_block_size "
      "train_loader.dataset.shuffle_seed "
      "train_loader.dataset.split train_loader.dataset.streams train_loader.dataset.target_prompts "
      "train_loader.dataset.target_responses "
      "train_loader.dataset.token_encoding_type "
      "train_loader.drop_last "
      "train_loader.label train_loader.name train_subset_num_batches variables zero_stage");
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
