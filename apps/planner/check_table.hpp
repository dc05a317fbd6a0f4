// check_table: `plan check`: the predictions of the rows of a table of published steps, layouts or
// allocated bytes, and their errors.
#pragma once

#include <filesystem>

#include <cli/results_file.hpp>

namespace apps {

/// Predicts every row of a CSV file and prints, by program and GPU, how right the predictions are;
/// then the rows that cannot be predicted, by reason. The document has every row.
void check_table(std::filesystem::path const& file, results_file const& json);

}  // namespace apps
