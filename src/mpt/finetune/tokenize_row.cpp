#include <mpt/finetune/tokenize_row.hpp>

#include <variant>

#include <mpt/tokenizer/chat/jinja_renderer.hpp>

namespace mpt::finetune {

std::vector<turn> row_tokenizer::turns(formatted_row const& row, std::string_view location) {
  std::vector<turn> out;
  if (auto const* const text = std::get_if<turn_text>(&row)) {
    turn turn_ids{encode(text->prompt, affixes_), encode(text->response, affixes_)};
    bool const both_begin_with_bos =
        bos_id_ && !turn_ids.prompt.empty() && !turn_ids.response.empty() &&
        turn_ids.prompt.front() == *bos_id_ && turn_ids.response.front() == *bos_id_;
    if (both_begin_with_bos) turn_ids.response.erase(turn_ids.response.begin());
    out.push_back(std::move(turn_ids));
    return out;
  }
  for (auto const& text :
       cut_into_turns(std::get<std::vector<chat_message>>(row), renderer(), location))
    out.push_back({encode(text.prompt, {}), encode(text.response, {})});
  return out;
}

std::vector<std::int32_t> row_tokenizer::encode(std::string_view text,
                                                text_affixes const& affixes) {
  auto ids = affixes.prefix;
  tokenizer_->encode(text, ids, cache_);
  ids.insert(ids.end(), affixes.suffix.begin(), affixes.suffix.end());
  return ids;
}

chat_renderer const& row_tokenizer::renderer() {
  if (renderer_) return renderer_;
  auto const own_template = read_chat_template(tokenizer_->files());
  renderer_ =
      own_template ? make_jinja_renderer(*own_template, date_) : chat_renderer(render_chatml);
  return renderer_;
}

}  // namespace mpt::finetune
