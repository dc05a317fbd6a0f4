#include "support/parquet.hpp"

#include <mpt/finetune/parquet_rows.hpp>

mpt::finetune::row_reader apps::parquet_reader() { return mpt::finetune::read_parquet_rows; }
