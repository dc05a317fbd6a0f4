// text_model: what reads texts and says what may come next, whatever its element, device and layout
// (decoder.hpp): those who write and score texts need know no more of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mpt/config/model.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {

/// What a text_model has room for.
struct decoder_room {
  index tokens = 0;  ///< of a text
  std::size_t texts = 1;
  index rows = 512;       ///< of a pass: longer texts are read piece by piece
  index logit_rows = 64;  ///< logits of a pass
};

/// Texts are numbered from 0 to room().texts - 1, and hold nothing at first. Ranks that share the
/// model read the same texts together.
class text_model {
 public:
  text_model() = default;
  text_model(text_model const&) = delete;
  text_model& operator=(text_model const&) = delete;
  virtual ~text_model() = default;

  [[nodiscard]] virtual decoder_room const& room() const = 0;
  [[nodiscard]] virtual model_config const& config() const = 0;
  /// Forgets all but the first `length` tokens of a text.
  virtual void keep(std::size_t text, index length) = 0;

  /// Reads more of a text: logits [wanted, V] of the last ids.
  [[nodiscard]] virtual std::vector<float> read(std::size_t text, std::span<std::int32_t const> ids,
                                                index wanted = 1) = 0;
  /// Reads one more id of each of several texts, in one pass: logits [texts, V].
  [[nodiscard]] virtual std::vector<float> read_next(std::span<std::size_t const> texts,
                                                     std::span<std::int32_t const> ids) = 0;
};

}  // namespace mpt
