#include <inputs/chat_templates.hpp>

#include <mpt/tokenizer/chat/jinja_renderer.hpp>

mpt::template_engine apps::template_engine() {
  return [](mpt::chat_template const& chat_template) {
    return mpt::make_jinja_renderer(chat_template);
  };
}
