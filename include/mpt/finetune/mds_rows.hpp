// Rows of an MDS set for finetuning: text columns, messages, or turns that are tokenised already.
//
// What convert_finetuning_dataset.py and `prepare --finetuning` write: "prompt" and "response"
// (str), "messages" (json), or "turns" (json), a list of {"input_ids", "labels"}. Sets of older
// LLM Foundry versions have "input_ids" and "labels" as arrays, or as raw bytes of a type that the
// set does not say.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/data/mds_reader.hpp>
#include <mpt/finetune/example.hpp>
#include <parallel/core/error.hpp>

namespace mpt::finetune {

/// How tokenised columns are read.
struct id_options {
  data::mds_type raw_type = data::mds_type::int64;  ///< of raw bytes (token_encoding_type)
  std::int64_t vocab_size = std::int64_t{1} << 31;  ///< ids are below
  std::size_t longest = SIZE_MAX;  ///< ids kept of each of "input_ids" and "labels" (max_seq_len)
};

/// The turns of a sample that is tokenised already; nothing for one of text.
[[nodiscard]] std::optional<std::vector<turn>> turns_of(data::mds_sample const& sample,
                                                        id_options const& options);

/// A sample of text as a row: str and bytes as strings, json as it is; others as null.
[[nodiscard]] nlohmann::json text_row(data::mds_sample const& sample);

}  // namespace mpt::finetune
