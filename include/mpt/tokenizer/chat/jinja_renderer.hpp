// jinja_renderer: runs a tokenizer's chat template, a program in Jinja, as transformers does.
//
// A template has the names that transformers gives it: messages, add_generation_prompt, the special
// tokens that the tokenizer names, tools and documents (none), raise_exception and strftime_now. It
// is an untrusted program: it reads no files, and its depth, its work and its memory are limited.
#pragma once

#include <chrono>

#include <mpt/tokenizer/chat/chat_template.hpp>

namespace mpt {

/// The time of this machine's clock in its time zone.
[[nodiscard]] std::chrono::local_seconds local_now();

/// A renderer, for which strftime_now shows `date`. Throws, naming the tokenizer, for a template
/// with a syntax error; the renderer throws for one that fails, raises an exception or does not
/// end.
[[nodiscard]] chat_renderer make_jinja_renderer(chat_template const& source,
                                                std::chrono::local_seconds date);

}  // namespace mpt
