// Reads all rows of a file of finetuning data in any supported format.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include <nlohmann/json.hpp>

#include <mpt/finetune/csv_rows.hpp>
#include <mpt/finetune/json_rows.hpp>

namespace mpt::finetune {

/// A function that takes each row, an object of its columns, and its location ("file:line") for
/// errors.
using row_consumer = std::function<void(nlohmann::json const& row, std::string_view location)>;

/// A function that calls `consume` with each row of a file, as read_rows does.
using row_reader =
    std::function<void(std::filesystem::path const& file, row_consumer const& consume)>;

/// Calls `consume` with the rows of `file`. The file's ending says its format: .jsonl, .jsonlines,
/// .ndjson, .json (lines or a list) or .csv, followed by .gz, .zst or .zstd if it is compressed.
/// `parquet` reads .parquet files, which are an error without it (parquet_rows.hpp has such a
/// function). Errors: another ending; exceptions of `consume`.
void read_rows(std::filesystem::path const& file, row_consumer const& consume,
               row_reader const& parquet = {});

}  // namespace mpt::finetune
