// Rows of a Parquet file, by Arrow's C++ library (tested with 26).
//
// A program includes this header only where that library is installed; no other header needs Arrow.
// Strings, numbers, lists and structs become JSON; a column of another type is null, so a program
// that needs the column refuses it. Memory: a batch of rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <arrow/api.h>
#include <parquet/arrow/reader.h>

#include <mpt/finetune/read_rows.hpp>
#include <mpt/tokenizer/utf8.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

namespace detail {

[[nodiscard]] nlohmann::json parquet_value(arrow::Array const& column, std::int64_t row,
                                           std::string_view location);

template <class List>
[[nodiscard]] nlohmann::json parquet_list(arrow::Array const& column, std::int64_t row,
                                          std::string_view location) {
  auto const& list = static_cast<List const&>(column);
  auto out = nlohmann::json::array();
  for (std::int64_t i = list.value_offset(row); i < list.value_offset(row + 1); ++i)
    out.push_back(parquet_value(*list.values(), i, location));
  return out;
}

template <class Strings>
[[nodiscard]] nlohmann::json parquet_text(arrow::Array const& column, std::int64_t row,
                                          std::string_view location) {
  std::string text(static_cast<Strings const&>(column).GetView(row));
  parallel::require(utf8::is_valid(text), location, ": a text is not UTF-8");
  return text;
}

inline nlohmann::json parquet_value(arrow::Array const& column, std::int64_t row,
                                    std::string_view location) {
  if (column.IsNull(row)) return nullptr;
  switch (column.type_id()) {
    case arrow::Type::STRING: return parquet_text<arrow::StringArray>(column, row, location);
    case arrow::Type::LARGE_STRING:
      return parquet_text<arrow::LargeStringArray>(column, row, location);
    case arrow::Type::STRING_VIEW:
      return parquet_text<arrow::StringViewArray>(column, row, location);
    case arrow::Type::BOOL: return static_cast<arrow::BooleanArray const&>(column).Value(row);
    case arrow::Type::INT32: return static_cast<arrow::Int32Array const&>(column).Value(row);
    case arrow::Type::INT64: return static_cast<arrow::Int64Array const&>(column).Value(row);
    case arrow::Type::DOUBLE: return static_cast<arrow::DoubleArray const&>(column).Value(row);
    case arrow::Type::LIST: return parquet_list<arrow::ListArray>(column, row, location);
    case arrow::Type::LARGE_LIST: return parquet_list<arrow::LargeListArray>(column, row, location);
    case arrow::Type::DICTIONARY: {
      auto const& encoded = static_cast<arrow::DictionaryArray const&>(column);
      return parquet_value(*encoded.dictionary(), encoded.GetValueIndex(row), location);
    }
    case arrow::Type::STRUCT: {
      auto const& fields = static_cast<arrow::StructArray const&>(column);
      auto members = nlohmann::json::object();
      for (int i = 0; i < fields.num_fields(); ++i)
        members[fields.struct_type()->field(i)->name()] =
            parquet_value(*fields.field(i), row, location);
      return members;
    }
    default: return nullptr;
  }
}

inline void require_arrow(arrow::Status const& status, std::filesystem::path const& file) {
  parallel::require(status.ok(), file.native(), ": not read as Parquet: ", status.message());
}

[[nodiscard]] inline std::shared_ptr<arrow::RecordBatchReader> batches_of(
    arrow::Result<std::unique_ptr<arrow::RecordBatchReader>> opened,
    std::filesystem::path const& file) {
  require_arrow(opened.status(), file);
  return std::move(opened).ValueOrDie();
}

}  // namespace detail

/// Opens a Parquet file. Errors: Arrow's messages for a damaged one.
[[nodiscard]] inline std::unique_ptr<parquet::arrow::FileReader> open_parquet(
    std::filesystem::path const& file) {
  try {  // a damaged header may come as an exception
    parquet::arrow::FileReaderBuilder builder;
    std::unique_ptr<parquet::arrow::FileReader> reader;
    detail::require_arrow(builder.OpenFile(file.native()), file);
    detail::require_arrow(builder.Build(&reader), file);
    return reader;
  } catch (parallel::error const&) {
    throw;
  } catch (std::exception const& problem) {
    parallel::fail(file.native(), ": not read as Parquet: ", problem.what());
  }
}

/// Calls `consume` with the rows of a Parquet file; locations are "file, row 3", from 1. Errors:
/// Arrow's messages for a damaged file; exceptions of `consume`.
inline void read_parquet_rows(std::filesystem::path const& file, row_consumer const& consume) {
  auto const reader = open_parquet(file);
  auto const batches = detail::batches_of(reader->GetRecordBatchReader(), file);
  std::uint64_t number = 0;
  for (std::shared_ptr<arrow::RecordBatch> batch;;) {
    detail::require_arrow(batches->ReadNext(&batch), file);
    if (batch == nullptr) return;
    detail::require_arrow(batch->ValidateFull(), file);
    for (std::int64_t row = 0; row < batch->num_rows(); ++row) {
      auto const location = parallel::concat(file.native(), ", row ", ++number);
      auto object = nlohmann::json::object();
      for (int i = 0; i < batch->num_columns(); ++i)
        object[batch->column_name(i)] = detail::parquet_value(*batch->column(i), row, location);
      consume(object, location);
    }
  }
}

/// Reads the column "text" of a Parquet file, row by row. Errors: no such column; a row without a
/// text; Arrow's messages for a damaged file.
class parquet_texts {
 public:
  explicit parquet_texts(std::filesystem::path file)
      : file_(std::move(file)), reader_(open_parquet(file_)) {
    auto const& schema = *reader_->parquet_reader()->metadata()->schema();
    std::string names;
    for (int i = 0; i < schema.num_columns(); ++i)
      names += (i == 0 ? "" : ", ") + schema.Column(i)->path()->ToDotString();
    int const column = schema.ColumnIndex("text");
    parallel::require(column >= 0, file_.native(), ": has no column \"text\"; its columns are ",
                      names);
    std::vector<int> groups(static_cast<std::size_t>(reader_->num_row_groups()));
    std::iota(groups.begin(), groups.end(), 0);
    batches_ = detail::batches_of(reader_->GetRecordBatchReader(groups, {column}), file_);
  }

  /// Stores the next text in `out`; returns false at the end.
  [[nodiscard]] bool next(std::string& out) {
    while (batch_ == nullptr || row_ == batch_->num_rows()) {
      detail::require_arrow(batches_->ReadNext(&batch_), file_);
      if (batch_ == nullptr) return false;
      detail::require_arrow(batch_->ValidateFull(), file_);
      row_ = 0;
    }
    auto const location = parallel::concat(file_.native(), ", row ", ++number_);
    auto const text = detail::parquet_value(*batch_->column(0), row_++, location);
    parallel::require(text.is_string(), location, ": \"text\" is of type ", text.type_name(),
                      ", expected a string");
    out = text.get<std::string>();
    return true;
  }

 private:
  std::filesystem::path file_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  std::int64_t row_ = 0;      // of batch_
  std::uint64_t number_ = 0;  // of the row in the file, from 1
};

}  // namespace mpt::finetune
