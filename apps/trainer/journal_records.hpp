// Writes the start and the end of a training program into the journal of its run.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <mpt/config/train.hpp>
#include <mpt/console/format.hpp>
#include <mpt/log/run_journal.hpp>
#include <mpt/train/report/run_summary.hpp>
#include <mpt/train/setup/plan_json.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <nlohmann/json.hpp>
#include <parallel/checkpoint/claims/folder_claim.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/version.hpp>

#include <process/process.hpp>
#include <process/program_facts.hpp>

namespace apps {

/// Appends a record to the journal of a run. A full disk is an error, as it is for metrics.
inline void append_record(mpt::checkpoint_config const& checkpoint, std::string_view kind,
                          nlohmann::ordered_json record) {
  mpt::run_journal journal(checkpoint.save_folder);
  journal.add(kind, std::move(record));
  if (journal.lost() > 0)
    parallel::fail<parallel::storage_error>(checkpoint.save_folder, ": the journal ",
                                            mpt::journal_name,
                                            " cannot be written, as on a full disk");
}

/// The record of a program that begins to train as planned on `ranks` ranks of `nodes` machines,
/// each with the device `device_name`.
[[nodiscard]] inline nlohmann::ordered_json start_record(mpt::model_config const& m,
                                                         mpt::data_config const& data,
                                                         mpt::execution_config const& execution,
                                                         mpt::run_config const& run,
                                                         mpt::run_plan const& plan, int ranks,
                                                         int nodes, std::string_view device_name) {
  return {
      {"program", data.train_loader.finetuning ? "finetune" : "pretrain"},
      {"version", to_string(parallel::library_version)},
      {"program_seconds", program_seconds()},
      {"run_name", run.name},
      {"model", fmt::format("{}, {} parameters, {} layers × {}, {}", m.family,
                            mpt::console::count(static_cast<double>(parameter_count(m))),
                            m.n_layers, m.d_model, positions_name(m))},
      {"precision", execution.precision == mpt::precision_kind::fp32 ? "fp32" : "bf16"},
      {"ranks", ranks},
      {"nodes", nodes},
      {"device", device_name},
      {"layout", fmt::format("{}, {} microbatches of {}", describe_layout(execution, plan.layout),
                             plan.split.accumulation, plan.split.microbatch)},
      {"memory_plan", mpt::to_json(plan.memory)}};
}

/// Writes the record of a start, with what the program writes and the settings that it was given.
inline void write_start(mpt::checkpoint_config const& checkpoint, mpt::output_config const& output,
                        nlohmann::ordered_json record) {
  auto const absolute = [](std::string const& path) {
    return path.empty() ? "" : std::filesystem::absolute(path).string();
  };
  record["metrics_file"] = absolute(output.metrics_file);
  record["save_folder"] = absolute(checkpoint.save_folder);
  record["notes"] = output.report.notes;
  for (auto const& [name, text] : program_facts()) record[name] = text;
  auto& configuration = record["configuration"] = nlohmann::ordered_json::object();
  for (auto const& key : output.loggers.settings) configuration[key.name] = key.text;
  append_record(checkpoint, "start", std::move(record));
}

/// Writes why a program has failed, if the journal is still its own and can be written.
inline void write_failure(mpt::checkpoint_config const& checkpoint,
                          parallel::checkpoint::folder_claim const& claim, std::string_view text) {
  try {
    claim.require_held();
    append_record(checkpoint, "failed", {{"text", text}});
  } catch (parallel::error const&) {  // as on the full disk that is the reason
  }
}

/// Writes the end of a program that was not killed.
inline void write_end(mpt::checkpoint_config const& checkpoint, mpt::run_summary const& s) {
  append_record(checkpoint, "end",
                {{"batches", s.batches},
                 {"batches_here", s.batches_here},
                 {"stopped", s.stop_asked},
                 {"training_seconds", s.seconds},
                 {"data_wait_share", s.data_wait_share},
                 {"evaluation_seconds", s.evaluation_seconds},
                 {"saving_seconds", s.saves.held_up_seconds + s.local_saves.held_up_seconds},
                 {"wall_clock_seconds", program_seconds()}});
}

}  // namespace apps
