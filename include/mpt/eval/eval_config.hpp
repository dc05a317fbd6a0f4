// An evaluation's configuration: LLM Foundry's scripts/eval YAML surface.
//
// It lists models, each with its tokenizer and load_path (or one model at the top level, as in
// training files), the tasks of icl_tasks, and a gauntlet. The contents of load_path determine a
// model's sizes; sizes that the file states must agree with them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/config/data/gauntlet_config.hpp>
#include <mpt/config/data/icl_task.hpp>
#include <mpt/config/model/hf.hpp>
#include <mpt/config/train.hpp>
#include <mpt/yaml/document.hpp>
#include <mpt/yaml/report.hpp>

namespace mpt::eval {

/// A model to be evaluated.
struct evaluated_model {
  std::string name;
  std::filesystem::path path;          ///< a checkpoint, a save folder or a Hugging Face folder
  std::filesystem::path adapter = {};  ///< PEFT adapter of the model, or ""
  std::string tokenizer;               ///< a name or folder; may be empty
  std::optional<model_config> stated;  ///< sizes that the file states

  friend bool operator==(evaluated_model const&, evaluated_model const&) = default;
};

struct eval_config {
  std::vector<evaluated_model> models;
  std::vector<task_config> tasks;
  std::optional<gauntlet_config> gauntlet;
  std::int64_t max_seq_len = 0;
  std::int64_t batch_size = 0;
  std::optional<std::int64_t> subset_batches;  ///< batches of a task without categories; none: all
  precision_kind precision = precision_kind::amp_bf16;
  double dist_timeout = 600;
  std::optional<std::int64_t> ranks, threads;
  int tensor = 1;  ///< tensor degree: ranks that share a model
  std::string device = "auto";
  config_report report;

  friend bool operator==(eval_config const&, eval_config const&) = default;
};

/// The default name of a model in tables: its folder and the folder of its adapter.
[[nodiscard]] std::string model_name(std::filesystem::path const& model,
                                     std::filesystem::path const& adapter);

namespace detail {

/// Whether the results are independent of everything in `config_overrides`.
[[nodiscard]] bool changes_no_result(config_node const& changes);

}  // namespace detail

/// Reads a document; `file` is the file that it comes from.
[[nodiscard]] eval_config read_eval_config(config_node const& document,
                                           std::filesystem::path const& file);

/// Loads a file with overrides and reads it. The override `model_name_or_path=MODEL` sets the
/// variable of that name, as in LLM Foundry's README. `change`, if it is given, may change the
/// document before it is read.
[[nodiscard]] eval_config load_eval_config(std::filesystem::path const& file,
                                           std::span<std::string const> overrides = {},
                                           document_change const& change = {});

/// Throws unless the sizes that a configuration states agree with those of the model that was
/// found.
void check_stated(model_config const& stated, model_config const& found, std::string_view origin);

}  // namespace mpt::eval
