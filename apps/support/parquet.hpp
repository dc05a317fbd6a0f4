// The reader of Parquet files, by Arrow's C++ library if CMake found it.
#pragma once

#include <mpt/finetune/read_rows.hpp>

namespace apps {

/// Empty in a build without the library, which then refuses Parquet files.
[[nodiscard]] mpt::finetune::row_reader parquet_reader();

}  // namespace apps
