// Ends a text before the first stop string, which need not begin or end where a token does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mpt/tokenizer/stream_decoder.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {

/// The text of new ids up to the first stop string, without special tokens. An end of the text that
/// may still become a stop string is held back. The tokenizer must outlive this object.
class stopped_text {
 public:
  stopped_text(tokenizer const& words, std::vector<std::string> stops)
      : words_(words), decode_(words, special_tokens::skip), stops_(std::move(stops)) {
    std::erase(stops_, std::string());
  }

  /// Adds an id and returns whether the text has ended. Ids of padding rows of the vocabulary,
  /// which belong to no token, are ignored.
  bool add(std::int32_t id) {
    if (id < words_.size()) add(std::string_view(decode_.push(id)));
    return ended_;
  }

  /// The text that has become certain since the last call.
  [[nodiscard]] std::string take() {
    std::size_t held_bytes = 0;
    if (!ended_)
      for (auto const& stop : stops_)
        for (std::size_t size = std::min(stop.size() - 1, text_.size()); size > held_bytes; --size)
          if (std::string_view(text_).ends_with(std::string_view(stop).substr(0, size))) {
            held_bytes = size;
            break;
          }
    auto const end = std::max(taken_, text_.size() - held_bytes);
    auto out = text_.substr(taken_, end - taken_);
    taken_ = end;
    return out;
  }

  /// Ends the text and returns all of it.
  [[nodiscard]] std::string const& finish() {
    if (!ended_) add(std::string_view(decode_.finish()));
    ended_ = true;
    return text_;
  }

 private:
  void add(std::string_view added) {
    if (ended_) return;
    text_ += added;
    auto end = std::string::npos;
    for (auto const& stop : stops_) {
      // a stop string that was not found before ends in the added text
      auto const from = text_.size() - added.size();
      end = std::min(end, text_.find(stop, from - std::min(from, stop.size() - 1)));
    }
    if (end == std::string::npos) return;
    text_.resize(end);
    ended_ = true;
  }

  tokenizer const& words_;
  stream_decoder decode_;
  std::vector<std::string> stops_;
  std::string text_;
  std::size_t taken_ = 0;
  bool ended_ = false;
};

}  // namespace mpt
