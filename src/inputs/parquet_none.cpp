#include <inputs/parquet.hpp>

mpt::finetune::row_reader apps::parquet_reader() { return {}; }

std::function<mpt::data::text_source(std::filesystem::path const&)> apps::parquet_texts() {
  return {};
}
