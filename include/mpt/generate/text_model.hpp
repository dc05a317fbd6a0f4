// text_model: the interface of a model that reads texts and returns the logits of the next tokens,
// independent of element type, device and layout (decoder.hpp implements it). Generation and
// scoring of texts need nothing else of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mpt/config/model.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

/// The capacity of a text_model.
struct decoder_room {
  index tokens = 0;       ///< tokens of one text
  std::size_t texts = 1;  ///< texts at the same time
  index rows = 512;       ///< tokens of one pass: longer texts are read in pieces
  index logit_rows = 64;  ///< rows of logits of one pass
};

/// Texts are numbered from 0 to room().texts - 1 and are empty at first. Ranks that share the model
/// read the same texts together.
class text_model {
 public:
  text_model() = default;
  text_model(text_model&&) = delete;
  virtual ~text_model() = default;

  [[nodiscard]] virtual decoder_room const& room() const = 0;
  [[nodiscard]] virtual model_config const& config() const = 0;
  /// Removes all but the first `length` tokens of a text.
  virtual void truncate(std::size_t text, index length) = 0;

  /// Appends ids to a text; returns the logits [wanted, V] of the last `wanted` ids.
  [[nodiscard]] virtual std::vector<float> read(std::size_t text, std::span<std::int32_t const> ids,
                                                index wanted = 1) = 0;
  /// Appends one id to each of several texts in one pass; returns logits [texts, V].
  [[nodiscard]] virtual std::vector<float> read_next(std::span<std::size_t const> texts,
                                                     std::span<std::int32_t const> ids) = 0;
};

}  // namespace mpt
