// The results of a run as JSON, and in its save_folder the file summary.json that holds them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include <mpt/config/train.hpp>
#include <mpt/console/format.hpp>
#include <mpt/train/report/run_row.hpp>
#include <mpt/train/report/run_summary.hpp>
#include <mpt/train/setup/run_plan.hpp>
#include <nlohmann/json.hpp>
#include <parallel/core/file.hpp>

#include <cli/report_file.hpp>

namespace apps {

/// The size of a folder's files in bytes; none: there is no such folder.
[[nodiscard]] inline std::optional<double> bytes_in(std::filesystem::path const& folder) {
  std::error_code problem;
  std::optional<double> out;
  for (auto const& entry : std::filesystem::recursive_directory_iterator(folder, problem))
    if (std::error_code lost; entry.is_regular_file(lost))
      out = out.value_or(0) + static_cast<double>(entry.file_size(lost));
  return out;
}

/// The results of a run as JSON. `packing_ratio`: the ratio that was found for train_loader.
[[nodiscard]] inline nlohmann::ordered_json json_of_run(
    mpt::model_config const& model, mpt::execution_config const& execution,
    mpt::run_config const& run, mpt::run_summary const& s, mpt::run_plan const& plan, int ranks,
    std::string_view engine, mpt::run_row const& row, std::optional<double> packing_ratio) {
  auto const model_text = fmt::format(
      "{} parameters{}, {} layers × {}, {}, {}",
      mpt::console::count(static_cast<double>(parameter_count(model))),
      model.experts
          ? fmt::format(" ({} used by a token)",
                        mpt::console::count(static_cast<double>(used_parameter_count(model))))
          : "",
      model.n_layers, model.d_model, positions_name(model),
      execution.precision == mpt::precision_kind::fp32 ? "fp32" : "bf16 with fp32 master weights");
  nlohmann::ordered_json record{
      {"run_name", run.name},
      {"model", model_text},
      {"ranks", ranks},
      {"ranks_text",
       fmt::format("{}, {} microbatches of {}", describe_layout(execution, plan.layout),
                   plan.split.accumulation, plan.split.microbatch)},
      {"engine", engine},
      {"batches", s.batches},
      {"batches_here", s.batches_here},
      {"skipped_batches", s.skipped_batches},
      {"tokens", s.tokens},
      {"loss", s.loss},
      {"tokens_per_second", s.tokens_per_second},
      {"trained_tokens_per_second", s.trained_tokens_per_second},
      {"samples_per_second", s.samples_per_second},
      {"mfu", s.mfu},
      {"mfu_causal", s.mfu_causal},
      {"peak_flops", s.peak_flops},
      {"peak_flops_from", s.peak_source},
      {"seconds", s.seconds},
      {"evaluation_seconds", s.evaluation_seconds},
      {"wall_clock_seconds", row.seconds},
      {"goodput", row.seconds > 0 ? s.seconds / row.seconds : 0},
      {"data_wait_share", s.data_wait_share},
      {"peak_memory_bytes", s.peak_memory_bytes},
      {"device_memory_bytes", s.device_memory_bytes},
      {"device_memory_by_rank", s.device_memory_by_rank},
      {"saves", s.saves.saves},
      {"save_seconds", s.saves.seconds},
      {"save_blocked_seconds", s.saves.held_up_seconds},
      {"local_saves", s.local_saves.saves},
      {"local_save_seconds", s.local_saves.seconds},
      {"local_save_blocked_seconds", s.local_saves.held_up_seconds},
      {"proposed_save_interval_seconds", mpt::proposed_save_interval(s.saves, ranks)},
      {"checkpoint", s.checkpoint}};
  if (s.evaluation)
    record["evaluation"] = {{"label", s.evaluation->label},
                            {"batch", s.evaluation->batch},
                            {"cross_entropy", s.evaluation->loss},
                            {"token_accuracy", s.evaluation->accuracy}};
  for (auto const& [name, value] : s.tasks.metrics) record["tasks"][name] = value;
  if (s.expected_step && s.measured_step)
    record["prediction"] = {{"predicted_seconds", s.expected_step->total},
                            {"measured_seconds", s.measured_step->total},
                            {"predicted_by_operation", s.expected_step->by_operation},
                            {"measured_by_operation", s.measured_step->by_operation}};
  if (packing_ratio) record["packing_ratio"] = *packing_ratio;
  record["table_row"] = to_json(row);
  return record;
}

/// Writes the results of a run, as json_of_run gives them, into its save_folder, and returns them.
/// Where the run was complete already, what it wrote itself is kept, and returned.
inline nlohmann::ordered_json write_summary(mpt::checkpoint_config const& checkpoint,
                                            mpt::run_summary const& s,
                                            nlohmann::ordered_json const& record) {
  if (checkpoint.save_folder.empty()) return record;
  auto const file = std::filesystem::path(checkpoint.save_folder) / "summary.json";
  if (s.seconds == 0 && std::filesystem::exists(file)) {
    constexpr std::uint64_t max_bytes = std::uint64_t{1} << 24;
    auto written =
        nlohmann::ordered_json::parse(parallel::read_text_file(file, max_bytes), nullptr, false);
    return written.is_discarded() ? record : written;
  }
  std::filesystem::create_directories(file.parent_path());
  parallel::replace_text_file(file, text_of_document(record));
  return record;
}

}  // namespace apps
