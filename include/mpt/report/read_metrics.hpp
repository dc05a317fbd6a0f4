// Reads the metrics file of a run: JSON lines that its programs appended one after another.
#pragma once

#include <filesystem>
#include <vector>

#include <mpt/report/run_record.hpp>

namespace mpt::report {

/// Adds the curves, texts and problems of `file` to `run`, and returns the programs that wrote it.
/// Batches that were trained again replace the earlier ones, whose training counts as lost.
/// `seconds_of_unit`: seconds in the unit of time in which the run logged how long evaluations
/// took.
[[nodiscard]] std::vector<run_program> read_metrics(std::filesystem::path const& file,
                                                    double seconds_of_unit, run_record& run);

}  // namespace mpt::report
