#include <inputs/parquet.hpp>

#include <memory>
#include <string>

#include <mpt/finetune/parquet_rows.hpp>

mpt::finetune::row_reader apps::parquet_reader() { return mpt::finetune::read_parquet_rows; }

std::function<mpt::data::text_source(std::filesystem::path const&)> apps::parquet_texts() {
  return [](std::filesystem::path const& file) -> mpt::data::text_source {
    // a std::function copies what it holds
    auto const texts = std::make_shared<mpt::finetune::parquet_texts>(file);
    return [texts](std::string& text) { return texts->next(text); };
  };
}
