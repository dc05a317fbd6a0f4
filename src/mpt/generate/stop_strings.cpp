#include <mpt/generate/stop_strings.hpp>

#include <algorithm>
#include <utility>

namespace mpt {

stopped_text::stopped_text(tokenizer const& tokenizer, std::vector<std::string> stops,
                           text_position position)
    : tokenizer_(tokenizer),
      decode_(tokenizer, special_tokens::skip, position),
      stops_(std::move(stops)) {
  std::erase(stops_, std::string());
}

bool stopped_text::add(std::int32_t id) {
  if (id < tokenizer_.size()) add(std::string_view(decode_.push(id)));
  return ended_;
}

std::string stopped_text::take() {
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

std::string const& stopped_text::finish() {
  if (!ended_) add(std::string_view(decode_.finish()));
  ended_ = true;
  return text_;
}

void stopped_text::add(std::string_view added) {
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

}  // namespace mpt
