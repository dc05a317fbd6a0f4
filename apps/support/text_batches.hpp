// text_batches: text on which a model is evaluated, of an MDS set or a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include <mpt/hf/model_source.hpp>
#include <mpt/train/sequences.hpp>

namespace apps {

struct text_request {
  std::filesystem::path data;   ///< an MDS folder; or a file, see mpt::data::document_reader
  std::filesystem::path model;  ///< as the user names it
  std::string tokenizer = {};   ///< of a file; "": the model's own
  std::int64_t rows = 8;        ///< of a batch
  std::optional<std::int32_t> eos_token_id = {}, bos_token_id = {};  ///< that an MDS set has
  std::string token_encoding_type = "int64";  ///< of an MDS set's plain bytes
};

/// Batches, and about how many labels they hold in all.
struct text_batches {
  std::function<std::optional<mpt::sequences>()> next;
  double tokens = 1;
  std::string note = {};  ///< what the user should know of the tokenizer; empty: nothing
};

/// In sequences of `length` tokens. Throws when a tokenizer or what ends texts is not known.
[[nodiscard]] text_batches open_text(text_request const& request, mpt::model_source const& model,
                                     std::int64_t length);

}  // namespace apps
