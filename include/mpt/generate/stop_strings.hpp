// Ends a text before the first stop string, which need not begin or end where a token does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/tokenizer/stream_decoder.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {

/// The text of new ids up to the first stop string, without special tokens. An end of the text that
/// may still become a stop string is held back. The tokenizer must outlive this object.
class stopped_text {
 public:
  /// `position` says whether the ids begin a text or continue one.
  stopped_text(tokenizer const& tokenizer, std::vector<std::string> stops,
               text_position position = text_position::beginning);

  /// Adds an id and returns whether the text has ended. Ids of padding rows of the vocabulary,
  /// which belong to no token, are ignored.
  bool add(std::int32_t id);

  /// The text that has become certain since the last call.
  [[nodiscard]] std::string take();

  /// Ends the text and returns all of it.
  [[nodiscard]] std::string const& finish();

 private:
  void add(std::string_view added);

  tokenizer const& tokenizer_;
  stream_decoder decode_;
  std::vector<std::string> stops_;
  std::string text_;
  std::size_t taken_ = 0;
  bool ended_ = false;
};

}  // namespace mpt
