#include <mpt/config/run/loggers.hpp>

#include <string_view>

#include <mpt/config/read_path.hpp>
#include <parallel/core/file.hpp>

namespace mpt {
namespace {

[[nodiscard]] std::vector<std::string> read_text_list(config_reader& reader, std::string_view key) {
  config_node const* const node = reader.raw(key);
  std::vector<std::string> texts;
  if (node == nullptr || node->is_null()) return texts;
  if (node->is_scalar()) return {node->text};
  reader.check(key, node->is_list(), "expected a list of texts");
  for (config_node const& item : node->items) {
    reader.check(key, item.is_scalar(), "expected a list of texts, found ", describe(item));
    texts.push_back(item.text);
  }
  return texts;
}

/// A mapping of names to texts.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> read_pairs(config_reader& reader,
                                                                          std::string_view key) {
  config_node const* const node = reader.raw(key);
  std::vector<std::pair<std::string, std::string>> pairs;
  if (node == nullptr || node->is_null()) return pairs;
  reader.check(key, node->is_map(), "expected names with texts, as {name: text}");
  for (std::size_t i = 0; i < node->items.size(); ++i) {
    reader.check(key, node->items[i].is_scalar(), "expected a text for ",
                 printable(node->keys[i].name), ", found ", describe(node->items[i]));
    pairs.emplace_back(node->keys[i].name, node->items[i].text);
  }
  return pairs;
}

[[nodiscard]] std::string read_text(config_reader& reader, std::string_view key) {
  return reader.get<std::string>(key, "");
}

/// Refuses a key whose value would be a secret in a file that is logged.
void refuse_secrets(config_reader& reader, std::string_view variable) {
  for (std::string_view const key : {"api_key", "token", "password"})
    if (reader.peek(key) != nullptr)
      reader.fail(key, "does not belong into a file; set it in the environment, as $", variable);
}

[[nodiscard]] python_tracker_config read_python_tracker(config_reader reader,
                                                        std::string const& module,
                                                        std::string const& run_name) {
  python_tracker_config tracker;
  tracker.module = module;
  refuse_secrets(reader, module == "wandb" ? "WANDB_API_KEY" : "HF_TOKEN");
  tracker.python = reader.get("python", tracker.python);
  tracker.project = read_text(reader, "project");
  tracker.group = read_text(reader, "group");
  tracker.name = detail::with_run_name(reader.get("name", run_name), run_name);
  auto client = reader.section("init_kwargs");
  refuse_secrets(client, module == "wandb" ? "WANDB_API_KEY" : "HF_TOKEN");
  if (module == "wandb") {
    tracker.entity = read_text(reader, "entity");
    tracker.tags = read_text_list(reader, "tags");
    tracker.id = read_text(client, "id");
    // it names files of the run, too
    client.check(
        "id",
        tracker.id.empty() || (parallel::is_plain_name(tracker.id) && tracker.id.size() <= 128 &&
                               tracker.id.find_first_of("#?%:") == std::string::npos),
        "must be at most 128 characters without / \\ # ? % :, as W&B has it, found '",
        printable(tracker.id), "'");
    tracker.mode = client.one_of("mode", "", {"", "online", "offline", "disabled"});
    tracker.dir = read_text(client, "dir");
    tracker.job_type = read_text(client, "job_type");
    tracker.notes = read_text(client, "notes");
    reader.refuse_unsupported("log_artifacts", "use false; checkpoints stay in save_folder",
                              {"false"});
    reader.refuse_unsupported("rank_zero_only", "use true; rank 0 logs for all", {"true"});
    client.accept_without_effect("save_code", "no Python code is run");
    client.accept_without_effect("reinit", "a run has one client process");
  }
  tracker.resume = client.one_of("resume", "", {"", "allow", "must", "never", "auto"});
  for (std::string_view const key : {"project", "entity", "name", "group", "tags"})
    if (client.peek(key) != nullptr)
      client.fail(key, "give it next to init_kwargs, as ", reader.full_name(key));
  client.finish(true);
  reader.finish(true);
  return tracker;
}

/// Fails unless `uri` is the address of a server, without a password in it.
void check_tracking_uri(config_reader const& reader, std::string const& uri) {
  if (uri.empty()) return;
  reader.check("tracking_uri", uri.find('@') == std::string::npos,  // and then it is not quoted
               "must not hold a name or password; set $MLFLOW_TRACKING_USERNAME and "
               "$MLFLOW_TRACKING_PASSWORD, or $MLFLOW_TRACKING_TOKEN");
  reader.check("tracking_uri", uri.starts_with("http://") || uri.starts_with("https://"), "'",
               printable(uri),
               "' is no server's address (http://... or https://...); a server for a local file: "
               "mlflow server --backend-store-uri sqlite:///mlflow.db");
}

[[nodiscard]] mlflow_config read_mlflow(config_reader reader, std::string const& run_name) {
  mlflow_config mlflow;
  refuse_secrets(reader, "MLFLOW_TRACKING_TOKEN");
  mlflow.tracking_uri = read_text(reader, "tracking_uri");
  check_tracking_uri(reader, mlflow.tracking_uri);
  mlflow.experiment_name = read_text(reader, "experiment_name");
  mlflow.run_name = detail::with_run_name(reader.get("run_name", run_name), run_name);
  mlflow.run_group = read_text(reader, "run_group");
  mlflow.tags = read_pairs(reader, "tags");
  mlflow.ignore_metrics = read_text_list(reader, "ignore_metrics");
  mlflow.ignore_hyperparameters = read_text_list(reader, "ignore_hyperparameters");
  mlflow.rename_metrics = read_pairs(reader, "rename_metrics");
  auto const flush = reader.get<double>("flush_interval", mlflow.buffer_seconds);
  mlflow.buffer_seconds = reader.get<double>("logging_buffer_seconds", flush);
  for (std::string_view const key : {"flush_interval", "logging_buffer_seconds"})
    reader.check(key, mlflow.buffer_seconds >= 0 && mlflow.buffer_seconds <= 3600,
                 "must be from 0 to 3600 seconds, found ", mlflow.buffer_seconds);
  reader.refuse_unsupported("rank_zero_only", "use true; rank 0 logs for all", {"true"});
  reader.refuse_unsupported("synchronous", "use false; a run does not wait for a server",
                            {"false"});
  reader.accept_without_effect("log_system_metrics", "memory and speed are metrics of the run");
  reader.accept_without_effect("resume", "a resumed run goes on in its own MLflow run");
  reader.accept_without_effect("log_duplicated_metric_every_n_steps", "every value is logged");
  for (std::string_view const key : {"model_registry_prefix", "model_registry_uri"})
    reader.refuse_unsupported(key, "register a folder with MLflow's own client", {""});
  reader.finish(true);
  return mlflow;
}

}  // namespace

loggers_config read_loggers(config_reader reader, std::string const& run_name,
                            std::string const& save_folder) {
  loggers_config loggers;
  bool const has_tensorboard = reader.is_named("tensorboard");
  auto tensorboard = reader.section("tensorboard");
  auto const folder = tensorboard.get<std::string>("log_dir", "tensorboard_logs");
  if (has_tensorboard) loggers.tensorboard = folder + "/" + run_name;
  tensorboard.accept_without_effect("flush_interval", "every record is written immediately");
  tensorboard.accept_without_effect("rank_zero_only", "rank 0 writes");
  tensorboard.finish();
  bool const has_csv = reader.is_named("csv");
  auto csv = reader.section("csv");
  auto const table = detail::read_path(csv, "filename", run_name);
  if (has_csv)
    loggers.csv =
        table.empty() ? (save_folder.empty() ? run_name : save_folder) + "/metrics.csv" : table;
  csv.finish(true);
  for (std::string const module : {"wandb", "trackio"}) {
    bool const is_used = reader.is_named(module);
    auto tracker = read_python_tracker(reader.section(module), module, run_name);
    if (is_used) loggers.python_trackers.push_back(std::move(tracker));
  }
  bool const has_mlflow = reader.is_named("mlflow");
  auto mlflow = read_mlflow(reader.section("mlflow"), run_name);
  if (has_mlflow) loggers.mlflow = std::move(mlflow);
  for (std::string_view const key :
       {"mosaicml", "inmemory_logger", "in_memory_logger", "comet_ml", "neptune", "file_logger",
        "slack_logger", "remote_uploader_downloader"})
    reader.refuse_named(
        key,
        "metrics go to the console, metrics_file, csv, tensorboard, wandb, trackio and mlflow");
  reader.finish(true);
  return loggers;
}

}  // namespace mpt
