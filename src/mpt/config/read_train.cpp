#include <mpt/config/read_train.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <mpt/config/data/mirrors.hpp>
#include <mpt/config/data/read_finetuning_run.hpp>
#include <mpt/config/data/read_icl_tasks.hpp>
#include <mpt/config/model/family.hpp>
#include <mpt/config/model/read_model.hpp>
#include <mpt/config/read_path.hpp>
#include <mpt/config/run/read_algorithms.hpp>
#include <mpt/config/run/read_parallelism.hpp>
#include <mpt/config/run/read_system.hpp>
#include <mpt/config/written_files.hpp>
#include <mpt/yaml/document.hpp>

namespace mpt {
namespace {

/// Fails unless `name` can be part of a path. `prefix` begins the message.
void check_run_name(std::string const& name, std::string_view prefix) {
  bool is_plain = !name.empty() && name.size() <= 200 && !name.starts_with('.');
  for (char const c : name)
    is_plain = is_plain && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.');
  parallel::require(is_plain, prefix, ": '", printable(name),
                    "' cannot name a run; use letters, digits, '-', '_' and '.'");
}

[[nodiscard]] std::int64_t positive(config_reader& reader, std::string_view key,
                                    std::int64_t value) {
  constexpr std::int64_t largest_value = std::int64_t{1} << 30;
  reader.check(key, value >= 1 && value <= largest_value, "must be from 1 to ", largest_value,
               ", found ", value);
  return value;
}

[[nodiscard]] evaluation_config read_evaluation(config_reader& reader, std::int64_t microbatch) {
  evaluation_config evaluation;
  evaluation.eval_interval = reader.get("eval_interval", evaluation.eval_interval);
  evaluation.eval_first = reader.get("eval_first", evaluation.eval_first);
  evaluation.eval_subset_num_batches =
      reader.get("eval_subset_num_batches", evaluation.eval_subset_num_batches);
  reader.check("eval_subset_num_batches",
               evaluation.eval_subset_num_batches == -1 || evaluation.eval_subset_num_batches > 0,
               "expected -1 for all or a number above 0, found ",
               evaluation.eval_subset_num_batches);
  evaluation.device_eval_batch_size =
      positive(reader, "device_eval_batch_size", reader.get("device_eval_batch_size", microbatch));
  return evaluation;
}

/// Whether icl_tasks lists tasks without data, as recipes do that their reader completes.
[[nodiscard]] bool has_blank_tasks(config_reader& reader) {
  config_node const* const tasks = reader.peek("icl_tasks");
  return tasks != nullptr && tasks->is_list() && !tasks->items.empty() &&
         std::ranges::all_of(tasks->items, [](config_node const& task) {
           config_node const* const data = task.find("dataset_uri");
           return data != nullptr && data->is_null();
         });
}

/// Reads the in-context learning tasks.
[[nodiscard]] icl_config read_icl(config_reader& reader, std::filesystem::path const& file,
                                  std::int64_t batch_size, std::int64_t max_seq_len) {
  icl_config out;
  auto const length = reader.get("icl_seq_len", max_seq_len);
  reader.check("icl_seq_len", length >= 2 && length <= largest_seq_len, "must be from 2 to ",
               largest_seq_len, ", found ", length);
  if (has_blank_tasks(reader))
    reader.accept_without_effect("icl_tasks", "every dataset_uri is blank");
  else
    out.tasks = eval::read_icl_tasks(
        reader, {.file = file, .batch_size = batch_size, .max_seq_len = length});
  out.gauntlet = eval::read_eval_gauntlet(reader, file);
  reader.check(reader.has_key("eval_gauntlet") ? "eval_gauntlet" : "eval_gauntlet_str",
               !out.gauntlet || !out.tasks.empty(), "needs the tasks it scores, in icl_tasks");
  out.subset_batches = reader.optional<std::int64_t>("icl_subset_num_batches");
  reader.check("icl_subset_num_batches",
               !out.subset_batches || *out.subset_batches == -1 || *out.subset_batches > 0,
               "expected -1 for all or a number above 0, found ", out.subset_batches.value_or(0));
  if (out.tasks.empty())
    reader.report_all_without_effect({"icl_seq_len", "icl_subset_num_batches"},
                                     "there are no icl_tasks");
  reader.accept_without_effect("icl_max_seq_len", "is icl_seq_len here and in LLM Foundry");
  return out;
}

/// Reports the evaluation keys that have no effect without an evaluation set.
void report_unused_evaluation_keys(config_reader& reader, data_config const& data,
                                   evaluation_config const& evaluation) {
  if (!data.eval_loaders.empty()) return;
  reader.report_without_effect("eval_subset_num_batches", "there is no eval_loader");
  if (evaluation.icl.tasks.empty())
    reader.report_all_without_effect({"eval_interval", "eval_first", "device_eval_batch_size"},
                                     "there is no eval_loader");
}

/// Reads the top-level keys that have no effect here and those that are not supported.
void read_remaining_keys(config_reader& reader) {
  for (std::string_view const key : {"python_log_level", "log_config"})
    reader.accept_without_effect(key, "the console shows one short form");
  for (std::string_view const key : {"metadata", "flatten_metadata"})
    reader.accept_without_effect(key, "no logger here takes it");
  for (std::string_view const key : {"max_split_size_mb", "expandable_segments", "cuda_load_lazy"})
    reader.accept_without_effect(key, "memory is planned before the start");
  reader.accept_without_effect("code_paths", "no Python is run");
  reader.accept_without_effect("compile_config", "everything is compiled");
  reader.refuse_unsupported("profiler", "leave it out; profile: true times three batches");
  reader.accept_without_effect("spin_dataloaders", "data is resumed by position");
  reader.refuse_unsupported("accumulate_train_batch_on_tokens",
                            "losses are always weighted by tokens (true)", {"true"});
  for (std::string_view const key :
       {"device_train_batch_size", "device_train_grad_accum", "n_gpus"})
    reader.refuse_unsupported(key, "it follows from global_train_batch_size, microbatch and ranks");
  for (std::string_view const key : variable_mappings) reader.report_unreferenced(key);
}

/// Reads the name of a run, or takes it from the environment.
[[nodiscard]] std::string read_run_name(config_reader& reader,
                                        config_environment const& environment) {
  auto name = reader.get<std::string>("run_name", "");
  std::string name_source = parallel::concat(reader.location_of("run_name"), ": run_name");
  if (name.empty()) {
    name = environment.run_name;
    name_source = "$RUN_NAME";
  }
  if (name.empty()) name = environment.default_run_name;
  check_run_name(name, name_source);
  return name;
}

/// The key that sets the longest sequence of the model.
[[nodiscard]] std::string length_key(config_reader const& reader, model_config const& model) {
  auto const* const section = reader.peek("model");
  bool const is_folder =
      section != nullptr && section->find("pretrained_model_name_or_path") != nullptr;
  auto const* const family = find_family(model.family);
  return parallel::concat("model.", is_folder ? "config_overrides." : "",
                          family != nullptr ? family->length_key : "max_seq_len");
}

/// Checks that the sequences of all loaders have lengths that the model can read.
void check_sequence_lengths(config_reader& reader, model_config const& model,
                            data_config const& data) {
  bool const default_length_is_used = std::ranges::any_of(
      data.eval_loaders,
      [&](auto const& loader) { return loader.max_seq_len == data.max_seq_len; });
  if (data.train_loader.max_seq_len != data.max_seq_len && !default_length_is_used &&
      !reader.has_key("icl_tasks"))
    reader.report_without_effect(
        "max_seq_len",
        parallel::concat("train_loader.dataset.max_seq_len is ", data.train_loader.max_seq_len));
  auto const longest = model.max_seq_len;
  auto const key = length_key(reader, model);
  auto const check_length = [&](std::string const& name, loader_config const& loader) {
    reader.check("max_seq_len", loader.max_seq_len <= longest, name, ".dataset.max_seq_len ",
                 loader.max_seq_len, " is longer than ",
                 model.learned_pos_emb
                     ? parallel::concat("the ", longest, " learned positions of ", key)
                     : parallel::concat("the model's ", longest,
                                        ", beyond which nothing reads it; raise ", key));
  };
  check_length("train_loader", data.train_loader);
  for (auto const& loader : data.eval_loaders) check_length(eval_loader_name(loader), loader);
  reader.check("train_loader",
               !model.attn.attn_uses_sequence_id || data.train_loader.finetuning ||
                   data.train_loader.eos_token_id || data.train_loader.bos_token_id,
               "model.attn_config.attn_uses_sequence_id needs to know where texts end: give "
               "dataset.eos_token_id or dataset.bos_token_id");
}

/// Reads the size of a batch, the duration of a run, its seed and its precision.
void read_course(config_reader& reader, data_config& data, run_config& run,
                 execution_config& execution) {
  data.global_train_batch_size = positive(reader, "global_train_batch_size",
                                          reader.required<std::int64_t>("global_train_batch_size"));
  if (reader.get<std::string>("device_train_microbatch_size", "auto") != "auto")
    data.device_train_microbatch_size =
        positive(reader, "device_train_microbatch_size",
                 reader.required<std::int64_t>("device_train_microbatch_size"));
  run.max_duration = reader.required<time_value>("max_duration");
  reader.check("max_duration",
               run.max_duration.count > 0 && run.max_duration.unit != time_unit::duration,
               "expected a time above 0 in ep, ba, sp or tok, found ", to_string(run.max_duration));
  data.train_subset_num_batches = reader.get<std::int64_t>("train_subset_num_batches", -1);
  reader.check("train_subset_num_batches",
               data.train_subset_num_batches == -1 || data.train_subset_num_batches > 0,
               "expected -1 for all or a number above 0, found ", data.train_subset_num_batches);
  auto const seed = reader.get<std::int64_t>("seed", 17);
  reader.check("seed", seed >= 0, "must not be negative, found ", seed);
  run.seed = static_cast<std::uint64_t>(seed);
  reader.refuse_unsupported("precision", "use fp32 or amp_bf16", {"fp32", "amp_bf16"});
  if (reader.get<std::string>("precision", "amp_bf16") == "fp32")
    execution.precision = precision_kind::fp32;
}

/// Checks the schedule as far as it does not depend on the number of samples.
void check_schedule_of_run(config_reader const& reader, scheduler_config const& scheduler,
                           data_config const& data, run_config const& run,
                           std::vector<std::string>& notes) {
  bool const in_epochs =
      run.max_duration.unit == time_unit::epoch || scheduler.t_max.unit == time_unit::epoch;
  if (!in_epochs) {
    try {
      check_schedule(scheduler, clock_of(data, run));
    } catch (parallel::error const& problem) {
      parallel::fail(reader.location_of("scheduler"), ": ", problem.what());
    }
  }
  if (!needs_epochs(scheduler, run.max_duration))
    for (auto& note : unfinished_parts(scheduler, clock_of(data, run)))
      notes.push_back(std::move(note));
}

/// A run with every section whose keys are only read if the section is there.
constexpr std::string_view run_with_all_sections = R"(
max_seq_len: 128
model: {name: mpt_causal_lm, d_model: 64, n_heads: 4, n_layers: 2, max_seq_len: 128, vocab_size: 512}
tokenizer: {name: tokenizer}
train_loader: {name: text, dataset: {local: data, shuffle: true}}
eval_loader: {name: text, dataset: {local: data}}
optimizer: {name: decoupled_adamw, lr: 1.0e-3}
scheduler: {name: cosine_with_warmup, t_warmup: 10ba}
algorithms: {gradient_clipping: {clipping_type: norm, clipping_threshold: 1.0}}
max_duration: 100ba
global_train_batch_size: 8
save_folder: checkpoints
callbacks:
  early_stopper: {monitor: LanguageCrossEntropy, dataloader_label: eval}
  kill_loss_spike: {}
  generate_callback: {prompts: [a], interval: 1ep, do_sample: true, temperature: 1}
  hf_checkpointer: {save_folder: models, save_interval: 1ep}
  optimizer_monitor: {}
loggers: {tensorboard: {}, csv: {}, wandb: {}, mlflow: {}}
)";

/// The loaders that replace the sets of text in a run that finetunes.
std::array<std::string, 2> finetuning_sets() {
  std::string const loader = "_loader={name: finetuning, dataset: {local: null, hf_name: rows}}";
  return {"train" + loader, "eval" + loader};
}

/// Refuses names for metrics under which the run writes something else.
void check_written_files(config_reader const& reader, output_config const& output,
                         std::string const& save_folder) {
  auto const table = output.loggers.csv.value_or("");
  auto const metrics = file_conflict(output.metrics_file, save_folder);
  reader.check("metrics_file", metrics.empty(), metrics);
  auto const csv = file_conflict(table, save_folder, {output.metrics_file});
  reader.check("loggers", csv.empty(), "csv.filename ", csv);
}

/// The number of tokens that the config.json of a model's folder states; nullopt where there is
/// none.
[[nodiscard]] std::optional<std::int64_t> vocabulary_in_folder(
    std::filesystem::path const& folder) {
  auto const file = folder / "config.json";
  std::error_code unreadable;  // the model's own reader says what is wrong with it
  if (folder.empty() || !std::filesystem::is_regular_file(file, unreadable)) return std::nullopt;
  auto const json =
      nlohmann::json::parse(parallel::read_text_file(file, std::size_t{1} << 24), nullptr, false);
  if (!json.is_object() || !json.contains("vocab_size") || !json["vocab_size"].is_number_integer())
    return std::nullopt;
  return json["vocab_size"].get<std::int64_t>();
}

/// Reads a document into `config`, whose report has the keys that were asked for also when this
/// throws.
void read_into(train_config& config, config_node const& document,
               config_environment const& environment) {
  config_reader reader(document, "", config.output.report);
  config.run.name = read_run_name(reader, environment);
  config.data.max_seq_len = reader.required<std::int64_t>("max_seq_len");
  reader.check("max_seq_len",
               config.data.max_seq_len >= 2 && config.data.max_seq_len <= largest_seq_len,
               "must be from 2 to ", largest_seq_len, ", found ", config.data.max_seq_len);
  reader.check("model", reader.has_key("model"), "missing; it is required");
  auto model = reader.section("model");
  auto const mirrors = read_mirrors(reader);
  detail::read_trained_model(model, config.model, config.checkpoint, mirrors);
  bool const has_targets = model.has_key("activation_checkpointing_target");
  auto recompute = detail::read_recompute(model, config.model.n_layers);
  bool const resizes = model.has_key("pretrained_model_name_or_path") &&
                       model.get("allow_embedding_resizing", false);
  if (!resizes && config.model.vocab_size > 0)
    if (auto const stored = vocabulary_in_folder(config.checkpoint.pretrained))
      model.check("config_overrides", config.model.vocab_size <= *stored, "vocab_size is ",
                  config.model.vocab_size, ", and the folder has ", *stored,
                  " tokens; allow_embedding_resizing=true makes rows for the others");
  model.check("allow_embedding_resizing", !resizes || !config.model.lora,
              "adapters leave embeddings as they are; use false with peft_config");
  model.finish();
  for (std::string_view const key : {"tokenizer", "optimizer", "scheduler", "train_loader"})
    reader.check(key, reader.has_key(key), "missing; it is required");
  config.data.tokenizer = detail::read_tokenizer(reader.section("tokenizer"));
  config.data.tokenizer.name = mirrored_path(mirrors, config.data.tokenizer.name);
  if (resizes)
    detail::fit_vocabulary(config.model, config.data.tokenizer.name, config.output.report.notes);
  config.optimizer = read_optimizer(reader.section("optimizer"));
  bool const has_new_adapters =
      config.model.lora && config.checkpoint.adapter.empty() && !reader.has_key("load_path");
  config.optimizer.clip =
      read_algorithms(reader.section("algorithms"), config.model, has_new_adapters);
  config.optimizer.scheduler = read_scheduler(reader.section("scheduler"));
  config.data.train_loader = read_loader(
      reader.section("train_loader"), {.max_seq_len = config.data.max_seq_len, .drop_last = true});
  config.data.eval_loaders =
      read_eval_loaders(reader, {.max_seq_len = config.data.max_seq_len, .drop_last = false});
  check_sequence_lengths(reader, config.model, config.data);
  read_course(reader, config.data, config.run, config.execution);
  config.evaluation = read_evaluation(reader, config.data.device_train_microbatch_size.value_or(1));
  config.evaluation.icl = read_icl(
      reader, environment.file, config.evaluation.device_eval_batch_size, config.data.max_seq_len);
  report_unused_evaluation_keys(reader, config.data, config.evaluation);
  detail::read_checkpoint(reader, config.run.name, config.checkpoint);
  config.callbacks = read_callbacks(reader.section("callbacks"), config.optimizer.frozen_layers);
  if (auto& saves = config.callbacks.hf_checkpointer)
    saves->save_folder = detail::with_run_name(saves->save_folder, config.run.name);
  detail::read_logging(reader, config.output);
  config.output.metrics_file = detail::read_path(reader, "metrics_file", config.run.name);
  config.output.loggers =
      read_loggers(reader.section("loggers"), config.run.name, config.checkpoint.save_folder);
  check_written_files(reader, config.output, config.checkpoint.save_folder);
  config.execution.recompute = std::move(recompute);
  detail::read_system(reader, config.checkpoint, config.run, config.execution);
  if (has_targets && !recomputes(config.execution))
    config.output.report.notes.emplace_back(
        "model.activation_checkpointing_target: has no effect without "
        "fsdp_config.activation_checkpointing: true");
  config.execution.parallelism =
      detail::read_parallelism(reader, std::move(config.execution.parallelism));
  detail::adapt_to_finetuning(reader, document, config.model, config.data,
                              config.output.report.notes, mirrors);
  if (config.data.train_loader.finetuning)
    detail::check_times_of_finetuning(reader, config.optimizer, config.run, config.checkpoint,
                                      config.callbacks);
  report_unused_mirrors(reader, document, mirrors);
  read_remaining_keys(reader);
  reader.finish();

  check_schedule_of_run(reader, config.optimizer.scheduler, config.data, config.run,
                        config.output.report.notes);
}

}  // namespace

config_environment process_environment(std::filesystem::path const& file) {
  config_environment environment{.file = file};
  if (char const* const name = std::getenv("RUN_NAME")) environment.run_name = name;
  std::string stem;
  for (char const c : file.stem().string()) {
    bool const is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                          (c == '.' && !stem.empty());
    stem += is_plain ? c : '-';
  }
  if (!stem.empty()) environment.default_run_name = stem.substr(0, 100);
  return environment;
}

train_config read_train_config(config_node const& document, config_environment const& environment) {
  train_config config;
  read_into(config, document, environment);
  return config;
}

train_config load_train_config(std::filesystem::path const& file,
                               std::span<std::string const> overrides,
                               document_change const& change) {
  auto document = load_document(file, overrides);
  if (change) change(document);
  return read_train_config(document, process_environment(file));
}

std::vector<known_key> known_keys(std::filesystem::path const& file,
                                  std::span<std::string const> overrides) {
  using keys_by_name = std::map<std::string, known_key>;
  enum class data_kind : std::uint8_t { unknown, text, finetuning };
  auto const collect = [&](keys_by_name& keys, std::function<config_node()> const& load) {
    train_config config;
    auto kind = data_kind::unknown;
    try {
      read_into(config, load(), process_environment(file));
      kind = config.data.train_loader.finetuning ? data_kind::finetuning : data_kind::text;
    } catch (parallel::error const&) {  // the keys in front of an error are known all the same
    }
    for (auto& key : config.output.report.known) {
      auto const [entry, is_new] = keys.try_emplace(key.name, key);
      if (!is_new && key.role == key_role::effective) entry->second = key;
    }
    return kind;
  };
  keys_by_name found;
  keys_by_name others;
  auto const kind = collect(found, [&] { return load_document(file, overrides); });
  char const* const source = "a run with all sections";
  if (kind != data_kind::finetuning)
    collect(others, [&] { return make_document(run_with_all_sections, source); });
  if (kind != data_kind::text)
    collect(others,
            [&] { return make_document(run_with_all_sections, source, finetuning_sets()); });
  found.merge(others);
  std::vector<known_key> out;
  for (auto& [name, key] : found) out.push_back(std::move(key));
  return out;
}

}  // namespace mpt

namespace mpt::detail {

tokenizer_config read_tokenizer(config_reader reader) {
  tokenizer_config tokenizer;
  tokenizer.name = reader.required<std::string>("name");
  auto kwargs = reader.section("kwargs");
  kwargs.accept_without_effect("model_max_length", "sequences have max_seq_len tokens");
  for (std::string_view const key : {"use_fast", "trust_remote_code", "padding_side"})
    kwargs.accept_without_effect(key, "one tokenizer, from tokenizer.json");
  for (std::string_view const key : {"add_bos_token", "add_eos_token"})
    kwargs.refuse_unsupported(key, "prepare has --bos_text and --eos_text", {"false"});
  kwargs.finish();
  reader.finish();
  return tokenizer;
}

void read_checkpoint(config_reader& reader, std::string const& run_name,
                     checkpoint_config& checkpoint) {
  checkpoint.save_folder = read_path(reader, "save_folder", run_name);
  checkpoint.save_interval = reader.get("save_interval", checkpoint.save_interval);
  reader.check("save_interval", checkpoint.save_interval.count > 0, "must be above 0");
  checkpoint.local_save_folder = read_path(reader, "local_save_folder", run_name, node_rank_mark);
  reader.check("local_save_folder",
               checkpoint.local_save_folder.empty() || !checkpoint.save_folder.empty(),
               "needs save_folder, which all nodes share: it says what is on their own disks, and "
               "a run goes on from there");
  reader.check("local_save_folder",
               checkpoint.local_save_folder.empty() ||
                   checkpoint.local_save_folder != checkpoint.save_folder,
               "is save_folder too; give a folder on each node's own disk");
  checkpoint.local_save_interval =
      reader.get("local_save_interval", checkpoint.local_save_interval);
  reader.check("local_save_interval", checkpoint.local_save_interval.count > 0, "must be above 0");
  reader.check("local_save_interval",
               !reader.has_key("local_save_interval") || !checkpoint.local_save_folder.empty(),
               "needs local_save_folder, a folder on each node's own disk");
  checkpoint.save_num_checkpoints_to_keep =
      reader.get("save_num_checkpoints_to_keep", checkpoint.save_num_checkpoints_to_keep);
  reader.check(
      "save_num_checkpoints_to_keep",
      checkpoint.save_num_checkpoints_to_keep == -1 || checkpoint.save_num_checkpoints_to_keep >= 1,
      "expected -1 for all or at least 1, found ", checkpoint.save_num_checkpoints_to_keep);
  checkpoint.keep_every = reader.get("keep_every", checkpoint.keep_every);
  reader.check("keep_every", checkpoint.keep_every >= 0,
               "expected a number of batches, or 0 for none, found ", checkpoint.keep_every);
  auto const& interval = checkpoint.save_interval;
  reader.check("keep_every",
               interval.unit != time_unit::batch ||
                   checkpoint.keep_every % static_cast<std::int64_t>(interval.count) == 0,
               "expected a multiple of save_interval (", to_string(interval),
               "), as only what is saved can be kept, found ", checkpoint.keep_every);
  checkpoint.save_overwrite = reader.get("save_overwrite", checkpoint.save_overwrite);
  checkpoint.load_path = read_path(reader, "load_path", run_name);
  checkpoint.load_weights_only = reader.get("load_weights_only", checkpoint.load_weights_only);
  checkpoint.autoresume = reader.get("autoresume", checkpoint.autoresume);
  reader.check("autoresume", !checkpoint.autoresume || !checkpoint.save_folder.empty(),
               "needs save_folder, where the checkpoint to go on from is found");
  reader.check("autoresume", !checkpoint.autoresume || !checkpoint.save_overwrite,
               "cannot go with save_overwrite: one goes on from the newest checkpoint, the other "
               "starts over");
  if (checkpoint.save_folder.empty())
    for (std::string_view const key : {"save_interval", "save_num_checkpoints_to_keep",
                                       "keep_every", "save_overwrite", "save_weights_only"})
      reader.report_without_effect(key, "there is no save_folder");
  else if (checkpoint.save_num_checkpoints_to_keep == -1)
    reader.report_without_effect("keep_every", "save_num_checkpoints_to_keep is -1: all stay");
  if (checkpoint.load_path.empty())
    reader.report_without_effect("load_weights_only", "there is no load_path");
  for (std::string_view const key : {"save_filename", "save_latest_filename"})
    reader.accept_without_effect(key, "checkpoints are folders named by batch, and 'latest'");
  reader.accept_without_effect("only_composer_checkpoint", "checkpoints have one form");
  checkpoint.save_weights_only = reader.get("save_weights_only", checkpoint.save_weights_only);
  reader.check("save_weights_only", !checkpoint.save_weights_only || !checkpoint.autoresume,
               "cannot go with autoresume: a run cannot go on from weights without the optimizer");
  reader.check("save_weights_only",
               !checkpoint.save_weights_only || checkpoint.local_save_folder.empty(),
               "cannot go with local_save_folder, which is there to go on from");
  reader.refuse_unsupported("only_hf_checkpoint", "use false; convert makes a Hugging Face folder",
                            {"false"});
  reader.refuse_unsupported("save_ignore_keys", "leave it blank");
  reader.refuse_unsupported("load_ignore_keys", "leave it blank");
  reader.refuse_unsupported("load_strict_model_weights", "use true", {"true"});
}

}  // namespace mpt::detail
