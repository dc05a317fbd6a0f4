// Reads files of JSON lines of which some may be damaged, such as the metrics of a run.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/report/run_record.hpp>

namespace mpt::report {

/// Calls use(object) for every line of `file` that is a JSON object. Damaged lines add a sentence
/// with file and line to `problems`: each of the first three, and one for all others. `use` returns
/// "" or what is wrong with the object, which counts as damage. So does a line of more than 4 MiB.
/// A file that cannot be read adds a sentence, too. Returns the number of lines that were used.
std::size_t read_lines(std::filesystem::path const& file,
                       std::function<std::string(nlohmann::ordered_json const&)> const& use,
                       std::vector<std::string>& problems);

/// Adds the curves, texts and problems of `file` to `run`, and returns the programs that wrote it.
/// Batches that were trained again replace the earlier ones, whose training counts as lost.
/// `seconds_of_unit`: seconds in the unit of time in which the run logged how long evaluations
/// took.
[[nodiscard]] std::vector<run_program> read_metrics(std::filesystem::path const& file,
                                                    double seconds_of_unit, run_record& run);

}  // namespace mpt::report
