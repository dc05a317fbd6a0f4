// All rows of a file of finetuning data, whatever its format.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include <nlohmann/json.hpp>

#include <mpt/finetune/csv_rows.hpp>
#include <mpt/finetune/json_rows.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// Called with each row, an object of its columns, and its place ("file:line") for messages.
using use_row = std::function<void(nlohmann::json const& row, std::string_view where)>;

/// Reads a file's rows, as read_rows.
using row_reader = std::function<void(std::filesystem::path const& file, use_row const& use)>;

/// Calls `use` with the rows of `file`, by its ending: .jsonl, .jsonlines, .ndjson, .json (lines or
/// a list) or .csv, with .gz, .zst or .zstd behind it if compressed; .parquet by `parquet`, if that
/// is given (parquet_rows.hpp has one). Errors: another ending; what `use` throws.
void read_rows(std::filesystem::path const& file, use_row const& use,
               row_reader const& parquet = {});

}  // namespace mpt::finetune
