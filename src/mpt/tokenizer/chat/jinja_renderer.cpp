#include <mpt/tokenizer/chat/jinja_renderer.hpp>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>
#include <vector>

#include <mpt/tokenizer/chat/jinja/evaluator.hpp>

namespace mpt {
namespace {

[[noreturn]] void fail_to_run(std::string const& tokenizer, std::string problem) {
  std::ranges::replace(problem, '\n', ' ');
  parallel::fail(tokenizer, ": its chat_template cannot be run: ", problem);
}

/// The names that a template can use.
[[nodiscard]] jinja::value template_variables(chat_template const& source,
                                              std::span<chat_message const> messages,
                                              bool answer_next) {
  using jinja::make_text;
  std::vector<jinja::value> list;
  for (auto const& message : messages)
    list.push_back(jinja::make_mapping({{make_text("role"), make_text(message.role)},
                                        {make_text("content"), make_text(message.content)}}));
  std::vector<std::pair<jinja::value, jinja::value>> out{
      {make_text("messages"), jinja::make_sequence(jinja::sequence_kind::list, std::move(list))},
      {make_text("add_generation_prompt"), answer_next},
      {make_text("tools"), jinja::none{}},
      {make_text("documents"), jinja::none{}}};
  for (auto const& [role, token] : source.special_tokens)
    out.emplace_back(make_text(role), make_text(token));
  return jinja::make_mapping(std::move(out));
}

}  // namespace

std::chrono::local_seconds local_now() {
  auto const seconds = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  return std::chrono::local_seconds(std::chrono::seconds(::timegm(&parts)));
}

chat_renderer make_jinja_renderer(chat_template const& source, std::chrono::local_seconds date) {
  auto const tree = [&] {
    try {
      return std::make_shared<jinja::node const>(jinja::parse(source.text));
    } catch (jinja::render_error const& problem) {
      fail_to_run(source.name, problem.what());
    }
  }();
  return [source, tree, date](std::span<chat_message const> messages, bool answer_next) {
    try {
      return jinja::render(*tree, template_variables(source, messages, answer_next), date);
    } catch (jinja::render_error const& problem) {
      fail_to_run(source.name, problem.what());
    }
  };
}

}  // namespace mpt
