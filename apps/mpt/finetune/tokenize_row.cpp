#include <mpt/finetune/tokenize_row.hpp>

#include <variant>

namespace mpt::finetune {

std::vector<turn> row_tokenizer::turns(formatted_row const& row, std::string_view where) {
  std::vector<turn> out;
  if (auto const* const text = std::get_if<turn_text>(&row)) {
    turn one{encode(text->prompt, around_), encode(text->response, around_)};
    bool const both = begin_ && !one.prompt.empty() && !one.response.empty() &&
                      one.prompt.front() == *begin_ && one.response.front() == *begin_;
    if (both) one.response.erase(one.response.begin());
    out.push_back(std::move(one));
    return out;
  }
  for (auto const& text : cut_into_turns(std::get<1>(row), renderer(where), where))
    out.push_back({encode(text.prompt, {}), encode(text.response, {})});
  return out;
}

std::vector<std::int32_t> row_tokenizer::encode(std::string_view text, around_text const& around) {
  auto out = around.before;
  tokenizer_->encode(text, out, cache_);
  out.insert(out.end(), around.after.begin(), around.after.end());
  return out;
}

chat_renderer const& row_tokenizer::renderer(std::string_view where) {
  if (render_) return render_;
  auto const own = read_chat_template(tokenizer_->files());
  parallel::require(!own || engine_, where, ": ", tokenizer_->files().name(),
                    " has a chat_template of its own, and ", jinja_advice,
                    "; or take it out of tokenizer_config.json to use ChatML");
  render_ = own ? engine_(*own) : chat_renderer(render_chatml);
  return render_;
}

}  // namespace mpt::finetune
