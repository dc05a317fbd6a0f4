// The reader of Parquet files, by Arrow's C++ library if CMake found it.
#pragma once

#include <filesystem>
#include <functional>

#include <mpt/data/document_reader.hpp>
#include <mpt/finetune/read_rows.hpp>

namespace apps {

/// Empty in a build without the library, which then refuses Parquet files.
[[nodiscard]] mpt::finetune::row_reader parquet_reader();

/// The function that opens a Parquet file's column "text". Empty in a build without the library.
[[nodiscard]] std::function<mpt::data::text_source(std::filesystem::path const&)> parquet_texts();

}  // namespace apps
