// run_facts: the figures of a run that a reader looks for first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <mpt/report/run_record.hpp>

namespace mpt::report {

/// A value and the batch after which it was logged.
struct batch_value {
  std::int64_t batch = 0;
  double value = 0;
};

/// The value alone.
[[nodiscard]] std::optional<double> value_of(std::optional<batch_value> const& found);

/// The labels of a run's evaluation sets, in the order of eval_loader; those that the configuration
/// does not tell come last, by name.
[[nodiscard]] std::vector<std::string> evaluation_labels(run_record const& run);

/// The results of a run's evaluations on one set.
struct set_evaluation {
  std::string label;  ///< of the set; "" where the run has only one
  std::optional<batch_value> loss, lowest_loss;
  std::optional<double> accuracy;  ///< of the last evaluation
};

/// Unknown facts are empty. Taken from the summary if the run ended, else from its metrics.
struct run_facts {
  std::optional<std::int64_t> batches;
  std::optional<double> tokens;
  std::optional<batch_value> loss, lowest_loss;  ///< of training
  std::vector<set_evaluation> evaluations;       ///< by set, in the order of eval_loader
  set_evaluation evaluation;                     ///< of the set that stands for all: the first
  std::optional<double> tokens_per_second;
  std::optional<double> mfu;
  std::optional<double> memory_bytes;  ///< peak of the rank with the most, in device memory
  std::vector<double> memory_by_rank;  ///< peaks in bytes
  std::optional<double> wall_clock;    ///< seconds
  std::optional<double> goodput;
  std::string state;  ///< "complete", "stopped by a signal", ...
};

/// How a program of a run has ended, in a word or two, or that it is running.
[[nodiscard]] std::string state_of(run_record const& run, run_program const& program);

/// The figures of a run.
[[nodiscard]] run_facts facts_of(run_record const& run);

/// Lets the first evaluation set that all runs with evaluations have stand for all sets of each, so
/// that their values can be compared. Returns false if there is no such set.
bool compare_by_common_set(std::vector<run_facts*> const& runs);

/// The cells of a run in a table like those of published runs (see mpt::run_row), or of its titles.
[[nodiscard]] std::vector<std::string> table_titles();
/// The cells of a run, in the order of table_titles.
[[nodiscard]] std::vector<std::string> table_cells(run_record const& run, run_facts const& facts);

}  // namespace mpt::report
