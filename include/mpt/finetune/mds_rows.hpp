// Rows of an MDS set for finetuning: text columns, messages, or turns that are tokenised already.
//
// convert_finetuning_dataset.py and `prepare --finetuning` write "prompt" and "response" (str),
// "messages" (json), or "turns" (json), a list of {"input_ids", "labels"}. Sets of older LLM
// Foundry versions have "input_ids" and "labels" as arrays, or as raw bytes whose type the set does
// not record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/data/mds/mds_reader.hpp>
#include <mpt/finetune/example.hpp>

namespace mpt::finetune {

/// Settings for reading tokenised columns.
struct id_options {
  data::mds_type raw_type =
      data::mds_type::int64;  ///< type of ids in raw bytes (token_encoding_type)
  std::int64_t vocab_size = std::int64_t{1} << 31;  ///< every id is smaller than this
  std::size_t max_ids = SIZE_MAX;  ///< longer "input_ids" and "labels" are cut (max_seq_len)
};

/// The turns of a tokenised sample; empty for a sample of text.
[[nodiscard]] std::optional<std::vector<turn>> turns_of(data::mds_sample const& sample,
                                                        id_options const& options);

/// A sample of text as a row: str and bytes become strings, json stays as it is, and columns of
/// other types are null.
[[nodiscard]] nlohmann::json text_row(data::mds_sample const& sample);

}  // namespace mpt::finetune
