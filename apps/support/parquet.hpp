// What reads Parquet files: Arrow's C++ library where CMake found it.
#pragma once

#include <mpt/finetune/read_rows.hpp>

namespace apps {

/// Empty where there is no such library: Parquet files are refused then.
[[nodiscard]] mpt::finetune::row_reader parquet_reader();

}  // namespace apps
