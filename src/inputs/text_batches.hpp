// text_batches: batches of text from an MDS set or a file, on which a model is evaluated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <mpt/hf/model_source.hpp>
#include <mpt/model/sequences.hpp>

namespace apps {

struct text_request {
  std::filesystem::path data;   ///< an MDS folder; or a file, see mpt::data::document_reader
  std::filesystem::path model;  ///< the model's path as the user wrote it, for messages
  std::string tokenizer = {};   ///< tokenizer for a file; "": the model's
  std::int64_t rows = 8;        ///< sequences of a batch
  std::optional<std::int32_t> eos_token_id = {}, bos_token_id = {};  ///< tokens of an MDS set
  std::string token_encoding_type = "int64";  ///< type of ids that an MDS set stores as bytes
};

/// A source of batches, and the approximate number of labels in all of them.
struct text_batches {
  std::function<std::optional<mpt::sequences>()> next;
  double tokens = 1;
  std::string note = {};  ///< a note to the user about the tokenizer; empty: none
};

/// The facts of the data, which ranks compare.
[[nodiscard]] mpt::input_facts text_facts(text_request const& request,
                                          mpt::model_source const& model, std::int64_t length);

/// Opens the data as sequences of `length` tokens. Throws when the tokenizer, or the token that
/// ends texts, is needed and not known.
[[nodiscard]] text_batches open_text(text_request const& request, mpt::model_source const& model,
                                     std::int64_t length);

}  // namespace apps
