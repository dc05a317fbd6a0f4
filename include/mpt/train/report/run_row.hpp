// run_row: a run as a row of a table like the tables of published LLM Foundry runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include <mpt/config/train.hpp>
#include <mpt/train/report/run_summary.hpp>

namespace mpt {

struct run_row {
  std::string model;  ///< as "MPT-125M", by its number of parameters
  std::int64_t batches = 0;
  std::int64_t batches_here = 0;  ///< batches of the program that `seconds` times
  std::string evaluated_every;    ///< "never" where the run is not evaluated
  int nodes = 1;
  double seconds = 0;  ///< of the whole program: start-up, training, evaluation and saving
  double tokens_per_second = 0;
  double mfu = 0;
  double device_bytes = 0;                    ///< of the rank with the most
  std::optional<double> checkpoint_bytes;     ///< of the last checkpoint, files of all ranks
  std::optional<double> evaluation_accuracy;  ///< accuracy of tokens on the first evaluation set
};

/// The row of a run that took `seconds` on `nodes` machines, and left a checkpoint of
/// `checkpoint_bytes`.
[[nodiscard]] run_row row_of(model_config const& model, data_config const& data,
                             evaluation_config const& evaluation, run_summary const& s,
                             double seconds, int nodes, std::optional<double> checkpoint_bytes);

/// The columns of a row in JSON. Whether conversion, inference and evaluation of the checkpoint
/// succeeded is not known when a run ends: null.
[[nodiscard]] nlohmann::ordered_json to_json(run_row const& row);

/// A Markdown table with one row.
[[nodiscard]] std::string to_string(run_row const& row);

}  // namespace mpt
