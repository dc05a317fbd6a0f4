#include <mpt/train/report/run_row.hpp>

#include <fmt/format.h>

#include <mpt/console/format.hpp>
#include <mpt/console/table.hpp>

namespace mpt {

run_row row_of(model_config const& model, data_config const& data,
               evaluation_config const& evaluation, run_summary const& s, double seconds, int nodes,
               std::optional<double> checkpoint_bytes) {
  auto const& interval = evaluation.eval_interval;
  bool const evaluates =
      interval.count > 0 && (!data.eval_loaders.empty() || !evaluation.icl.tasks.empty());
  auto const& family = model.family;
  run_row out{.model = (family == "mpt" ? "MPT" : family) + "-" +
                       console::count(static_cast<double>(parameter_count(model))),
              .batches = s.batches,
              .batches_here = s.batches_here,
              .evaluated_every = evaluates ? to_string(interval) : "never",
              .nodes = nodes,
              .seconds = seconds,
              .tokens_per_second = s.tokens_per_second,
              .mfu = s.mfu,
              .device_bytes = s.device_memory_bytes,
              .checkpoint_bytes = checkpoint_bytes,
              .evaluation_accuracy = std::nullopt};
  if (s.evaluation) out.evaluation_accuracy = s.evaluation->accuracy;
  return out;
}

nlohmann::ordered_json to_json(run_row const& row) {
  auto const known = [](std::optional<double> const& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
  };
  return {{"model", row.model},
          {"batches", row.batches},
          {"evaluated_every", row.evaluated_every},
          {"nodes", row.nodes},
          {"wall_clock_seconds", row.seconds},
          {"tokens_per_second", row.tokens_per_second},
          {"mfu", row.mfu},
          {"gib_per_device", row.device_bytes / 0x1p30},
          {"checkpoint_bytes", known(row.checkpoint_bytes)},
          {"conversion_inference_evaluation_ok", nullptr},
          {"evaluation_accuracy", known(row.evaluation_accuracy)}};
}

std::string to_string(run_row const& row) {
  std::string const unknown = "–";
  auto const batches = row.batches == row.batches_here
                           ? console::grouped(row.batches)
                           : fmt::format("{} ({} here)", console::grouped(row.batches),
                                         console::grouped(row.batches_here));
  return console::markdown_table(
      {{"model", "batches", "eval every", "nodes", "wall-clock s", "tokens/s", "MFU",
        "GiB per device", "checkpoint", "convert+infer+eval", "eval accuracy"},
       {row.model, batches, row.evaluated_every, std::to_string(row.nodes),
        fmt::format("{:.1f}", row.seconds),
        console::grouped(static_cast<std::int64_t>(row.tokens_per_second)),
        fmt::format("{:.3f}", row.mfu), fmt::format("{:.3g}", row.device_bytes / 0x1p30),
        row.checkpoint_bytes ? console::bytes(*row.checkpoint_bytes) : unknown, unknown,
        row.evaluation_accuracy ? fmt::format("{:.4f}", *row.evaluation_accuracy) : unknown}},
      {false, true, true, true, true, true, true, true, true, false, true});
}

}  // namespace mpt
