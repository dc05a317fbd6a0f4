#include <mpt/config/run/callbacks.hpp>

#include <cmath>
#include <initializer_list>
#include <string_view>

namespace mpt {
namespace {

[[nodiscard]] std::vector<std::string> read_texts(config_reader& reader, std::string_view key) {
  config_node const* const node = reader.raw(key);
  reader.check(key, node != nullptr && node->is_list() && !node->items.empty(),
               "expected a list of texts");
  std::vector<std::string> texts;
  for (config_node const& item : node->items) {
    reader.check(key, item.is_scalar(), "expected a list of texts, found ", describe(item));
    texts.push_back(item.text);
  }
  return texts;
}

/// Reads a whole number of epochs, or a time.
[[nodiscard]] time_value read_epochs_or_time(config_reader& reader, std::string_view key,
                                             time_value fallback) {
  config_node const* const node = reader.raw(key);
  if (node == nullptr) return fallback;
  auto const epochs = node->is_scalar() ? parse_integer(node->text) : std::nullopt;
  return epochs ? time_value{static_cast<double>(*epochs), time_unit::epoch}
                : reader.required<time_value>(key);
}

[[nodiscard]] logged_time_unit read_time_unit(config_reader& reader) {
  auto const name = reader.one_of("time_unit", "hours", {"seconds", "minutes", "hours", "days"});
  return {name, name == "seconds"   ? 1.0
                : name == "minutes" ? 60.0
                : name == "hours"   ? 3600.0
                                    : 86400.0};
}

[[nodiscard]] early_stopper_config read_early_stopper(config_reader reader) {
  early_stopper_config stopper;
  reader.check("monitor", reader.has_key("monitor"), "missing; it is required");
  stopper.monitor =
      reader.one_of("monitor", "", {"LanguageCrossEntropy", "LanguagePerplexity", "TokenAccuracy"});
  stopper.dataloader_label = reader.required<std::string>("dataloader_label");
  stopper.greater_is_better = stopper.monitor == "TokenAccuracy";
  if (reader.has_key("comp")) {
    auto const comp = reader.one_of("comp", "", {"less", "lt", "greater", "gt"});
    stopper.greater_is_better = comp == "greater" || comp == "gt";
  } else {
    static_cast<void>(reader.raw("comp"));
  }
  stopper.min_delta = std::abs(reader.get("min_delta", stopper.min_delta));
  stopper.patience = read_epochs_or_time(reader, "patience", stopper.patience);
  reader.check("patience",
               stopper.patience.count >= 0 && (stopper.patience.unit == time_unit::epoch ||
                                               stopper.patience.unit == time_unit::batch),
               "expected a time in ep or ba, found ", to_string(stopper.patience));
  reader.finish();
  return stopper;
}

[[nodiscard]] loss_spike_config read_loss_spike(config_reader reader) {
  loss_spike_config spike;
  spike.log_only = reader.get("log_only", spike.log_only);
  spike.patience = reader.get("patience", spike.patience);
  reader.check("patience", spike.patience >= 0, "must not be negative, found ", spike.patience);
  spike.outlier_multiplier = reader.get("outlier_multiplier", spike.outlier_multiplier);
  reader.check("outlier_multiplier", spike.outlier_multiplier > 1, "must be above 1, found ",
               spike.outlier_multiplier);
  auto const window = reader.get<std::int64_t>("window_size", 100);
  reader.check("window_size", window >= 1 && window <= 1'000'000,
               "must be from 1 to 1000000, found ", window);
  if (window != 100) spike.window_size = window;  // LLM Foundry takes 100 as not given
  spike.loss_cap = reader.get("loss_cap", spike.loss_cap);
  reader.check("loss_cap", spike.loss_cap > 0, "must be above 0, found ", spike.loss_cap);
  reader.finish();
  return spike;
}

[[nodiscard]] generate_config read_generate(config_reader reader) {
  generate_config generate;
  generate.prompts = read_texts(reader, "prompts");
  reader.check("interval", reader.has_key("interval"), "missing; it is required");
  generate.interval = read_epochs_or_time(reader, "interval", generate.interval);
  reader.check("interval", generate.interval.count > 0, "must be above 0");
  generate.max_new_tokens = reader.get("max_new_tokens", generate.max_new_tokens);
  reader.check("max_new_tokens", generate.max_new_tokens >= 1, "must be at least 1, found ",
               generate.max_new_tokens);
  auto const samples = reader.optional<bool>("do_sample");
  if (samples == true) {
    generate.temperature = 1;
    generate.top_k = 50;  // transformers' own defaults
  }
  if (samples == false)
    reader.accept_without_effect("temperature", "do_sample is false, the likeliest token is taken");
  else
    generate.temperature = reader.get("temperature", generate.temperature);
  generate.top_k = reader.get("top_k", generate.top_k);
  generate.top_p = reader.get("top_p", generate.top_p);
  reader.check("temperature", generate.temperature >= 0, "must not be negative");
  reader.check("top_k", generate.top_k >= 0, "must not be negative");
  reader.check("top_p", generate.top_p > 0 && generate.top_p <= 1, "must be above 0 and at most 1");
  if (generate.temperature == 0)
    reader.report_all_without_effect({"top_k", "top_p"},
                                     "the likeliest token is taken: temperature is 0");
  reader.accept_without_effect("batch_size", "prompts are continued one by one");
  reader.accept_without_effect("use_cache", "keys and values are always cached");
  reader.finish();
  return generate;
}

[[nodiscard]] hf_checkpointer_config read_hf_checkpointer(config_reader reader) {
  hf_checkpointer_config checkpointer;
  checkpointer.save_folder = reader.required<std::string>("save_folder");
  reader.check("save_folder",
               !checkpointer.save_folder.empty() &&
                   checkpointer.save_folder.find("://") == std::string::npos,
               "'", printable(checkpointer.save_folder),
               "' is not yet supported; use a path on this machine");
  auto const allow_placeholders = [&](std::string_view key, std::string text,
                                      std::initializer_list<std::string_view> names) {
    for (auto const name : names)
      for (auto position = text.find(name); position != std::string::npos;
           position = text.find(name))
        text.erase(position, name.size());
    reader.check(key, text.find_first_of("{}") == std::string::npos, "only ", *names.begin(),
                 names.size() > 1 ? " and {epoch}" : "", " can be in braces");
  };
  allow_placeholders("save_folder", checkpointer.save_folder, {"{run_name}"});
  reader.check("save_interval", reader.has_key("save_interval"), "missing; it is required");
  checkpointer.save_interval =
      read_epochs_or_time(reader, "save_interval", checkpointer.save_interval);
  reader.check("save_interval", checkpointer.save_interval.count > 0, "must be above 0");
  checkpointer.folder_name = reader.get("huggingface_folder_name", checkpointer.folder_name);
  allow_placeholders("huggingface_folder_name", checkpointer.folder_name, {"{batch}", "{epoch}"});
  reader.check("huggingface_folder_name", parallel::is_plain_name(checkpointer.folder_name),
               "must be a plain name, found '", printable(checkpointer.folder_name), "'");
  checkpointer.precision =
      reader.one_of("precision", checkpointer.precision, {"float32", "bfloat16", "float16"});
  checkpointer.overwrite = reader.get("overwrite", checkpointer.overwrite);
  for (std::string_view const key : {"mlflow_registered_model_name", "mlflow_logging_config"})
    reader.refuse_unsupported(key, "register the folder with MLflow's own client");
  reader.refuse_unsupported("final_register_only", "it belongs to mlflow_registered_model_name",
                            {"false"});
  reader.accept_without_effect("flatten_imports", "there is one small model file");
  reader.accept_without_effect("register_wait_seconds", "nothing is registered");
  reader.finish();
  return checkpointer;
}

/// Accepts the monitors that are always on here. A setting of Composer's that would change their
/// numbers is refused.
void read_permanent_monitors(config_reader& reader) {
  for (std::string_view const key : {"lr_monitor", "memory_monitor", "nan_monitor"})
    reader.accept_without_effect(key, "always on");
  reader.members("lr_monitor").finish();
  reader.members("nan_monitor").finish();
  auto memory = reader.members("memory_monitor");
  memory.refuse_unsupported("memory_keys", "leave it blank: metrics have one name each");
  memory.refuse_unsupported("dist_aggregate_batch_interval",
                            "leave it blank: rank 0 tells its memory");
  memory.finish();
}

}  // namespace

callbacks_config read_callbacks(config_reader reader, std::vector<std::string>& frozen_layers) {
  callbacks_config callbacks;
  auto speed = reader.section("speed_monitor");
  callbacks.speed_window = speed.get("window_size", callbacks.speed_window);
  speed.check("window_size", callbacks.speed_window >= 1, "must be at least 1, found ",
              callbacks.speed_window);
  callbacks.gpu_flops_available = speed.optional<double>("gpu_flops_available");
  speed.check("gpu_flops_available", callbacks.gpu_flops_available.value_or(1) > 0,
              "must be above 0, found ", callbacks.gpu_flops_available.value_or(0));
  callbacks.speed_time_unit = read_time_unit(speed);
  speed.finish();

  if (reader.is_named("early_stopper"))
    callbacks.early_stopper = read_early_stopper(reader.section("early_stopper"));
  if (reader.is_named("kill_loss_spike"))
    callbacks.kill_loss_spike = read_loss_spike(reader.section("kill_loss_spike"));
  if (reader.is_named("generate_callback"))
    callbacks.generate = read_generate(reader.section("generate_callback"));
  if (reader.is_named("hf_checkpointer"))
    callbacks.hf_checkpointer = read_hf_checkpointer(reader.section("hf_checkpointer"));
  if (reader.is_named("optimizer_monitor")) {
    auto monitor = reader.section("optimizer_monitor");
    callbacks.optimizer_monitor_interval = monitor.get<std::int64_t>("batch_log_interval", 10);
    monitor.check("batch_log_interval", callbacks.optimizer_monitor_interval >= 1,
                  "must be at least 1, found ", callbacks.optimizer_monitor_interval);
    monitor.accept_without_effect("log_optimizer_metrics", "all are logged");
    monitor.accept_without_effect("only_global", "all are logged");
    monitor.finish();
  }
  if (reader.is_named("mbmoe_tok_per_expert")) {
    auto monitor = reader.section("mbmoe_tok_per_expert");
    auto& tokens = callbacks.tokens_per_expert.emplace();
    tokens.interval = monitor.get("log_interval", tokens.interval);
    monitor.check("log_interval", tokens.interval >= 1, "must be at least 1, found ",
                  tokens.interval);
    tokens.every_layer = monitor.get("log_every_layer", tokens.every_layer);
    tokens.normalize = monitor.get("normalize", tokens.normalize);
    monitor.accept_without_effect("all_reduce_stats", "numbers are always those of all ranks");
    monitor.finish();
  }
  if (reader.is_named("layer_freezing")) {
    auto freezing = reader.section("layer_freezing");
    frozen_layers = read_texts(freezing, "layer_names");
    freezing.finish();
  }
  read_permanent_monitors(reader);
  auto estimator = reader.section("runtime_estimator");
  callbacks.remaining_skip_batches =
      estimator.get("skip_batches", callbacks.remaining_skip_batches);
  estimator.check("skip_batches", callbacks.remaining_skip_batches >= 0,
                  "must not be negative, found ", callbacks.remaining_skip_batches);
  callbacks.remaining_time_unit = read_time_unit(estimator);
  estimator.finish();
  for (std::string_view const key :
       {"system_metrics_monitor", "memory_snapshot", "oom_observer", "env_logging",
        "eval_output_logging", "loss_perp_v_len", "fdiff_metrics"})
    reader.refuse_named(key, "what a run measures is written to metrics_file and tensorboard");
  reader.accept_without_effect("scheduled_gc", "there is no garbage collector");
  reader.refuse_named("run_timeout", "dist_timeout ends a run that stalls");
  for (std::string_view const key :
       {"global_lr_scaling", "mono_checkpoint_saver", "load_checkpoint", "async_eval",
        "curriculum_learning", "dataset_swap"})
    reader.refuse_named(
        key,
        "supported callbacks include early_stopper, kill_loss_spike, generate_callback, "
        "hf_checkpointer, optimizer_monitor, mbmoe_tok_per_expert and layer_freezing");
  reader.finish(true);
  return callbacks;
}

}  // namespace mpt
