// A row's text as turns of ids, with what a tokenizer puts around a text.
//
// Prompts and responses get what the tokenizer puts around every text (its post_processor, or
// add_bos_token and add_eos_token of GPT-NeoX's class): MPT's tokenizers put nothing. A
// beginning-of-text token that stands in front of both is taken off the response. A rendered
// conversation has all its tokens already, so nothing is put around its parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/finetune/example.hpp>
#include <mpt/finetune/format_row.hpp>
#include <mpt/tokenizer/around_text.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt::finetune {

/// Turns rows of text into turns of ids. One for each thread, because of its cache.
class row_tokenizer {
 public:
  /// `engine` runs the tokenizer's own template of conversations, if it has one; else ChatML.
  explicit row_tokenizer(tokenizer const& tokenizer, template_engine engine = {})
      : tokenizer_(&tokenizer),
        engine_(std::move(engine)),
        around_(read_around_text(tokenizer)),
        begin_(tokenizer.id_of_role("bos_token")) {}

  /// The turns of a row. Errors name `where`.
  [[nodiscard]] std::vector<turn> turns(formatted_row const& row, std::string_view where) {
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

 private:
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text, around_text const& around) {
    auto out = around.before;
    tokenizer_->encode(text, out, cache_);
    out.insert(out.end(), around.after.begin(), around.after.end());
    return out;
  }

  [[nodiscard]] chat_renderer const& renderer(std::string_view where) {
    if (render_) return render_;
    auto const own = read_chat_template(tokenizer_->files());
    parallel::require(!own || engine_, where, ": ", tokenizer_->files().name(),
                      " has a chat_template of its own, and ", jinja_advice,
                      "; or take it out of tokenizer_config.json to use ChatML");
    render_ = own ? engine_(*own) : chat_renderer(render_chatml);
    return render_;
  }

  tokenizer const* tokenizer_;
  template_engine engine_;
  chat_renderer render_;
  around_text around_;
  std::optional<std::int32_t> begin_;
  word_cache cache_;
};

}  // namespace mpt::finetune
