// jinja_renderer: runs a tokenizer's chat template, with minja (github.com/google/minja).
//
// A template has the names that transformers gives it: messages, add_generation_prompt, bos_token,
// eos_token, raise_exception and strftime_now. Blocks are trimmed as in transformers, and strings
// are sequences of code points as in Python. A template is an untrusted program, so it runs in its
// own process.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iomanip>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>

#include <minja/minja.hpp>

#include <mpt/helper_process.hpp>
#include <mpt/tokenizer/chat/chat_template.hpp>
#include <mpt/tokenizer/chat/jinja_strings.hpp>
#include <mpt/tokenizer/chat/jinja_text.hpp>

namespace mpt {

namespace detail {

/// The names that a template can use.
[[nodiscard]] inline std::shared_ptr<minja::Context> template_context(
    chat_template const& source, nlohmann::ordered_json const& question) {
  auto const out = minja::Context::make(minja::Value(question));
  set_string_methods(*out);
  set_string_filters(*out);
  out->set("bos_token", source.bos_token);
  out->set("eos_token", source.eos_token);
  auto const strftime_now = [](std::shared_ptr<minja::Context> const&,
                               minja::ArgumentsValue& args) {
    args.expectArgs("strftime_now", {1, 1}, {0, 0});
    auto const time = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm local{};
    ::localtime_r(&time, &local);
    std::ostringstream text;
    text << std::put_time(&local, args.args[0].get<std::string>().c_str());
    return minja::Value(text.str());
  };
  out->set("strftime_now", minja::Value::callable(strftime_now));
  return out;
}

/// minja's message as one line: the position of the innermost expression without the source text.
[[nodiscard]] inline std::string line_of_problem(std::string problem) {
  if (problem.starts_with("std::bad_alloc")) return "it needs too much memory";
  auto const position = problem.find(" at row ");
  auto const end = problem.find(", column ", position);
  if (position != std::string::npos && end != std::string::npos)
    problem = problem.substr(0, position) + ", in line" +
              problem.substr(position + 7, end - position - 7);
  std::ranges::replace(problem, '\n', ' ');
  constexpr std::size_t max_bytes = 1000;
  return problem.substr(0, max_bytes);
}

}  // namespace detail

/// A template_engine. The renderer throws, naming the tokenizer, for a template that minja cannot
/// parse or run, that raises an exception, or that exceeds `limits`.
[[nodiscard]] inline chat_renderer make_jinja_renderer(chat_template const& source,
                                                       helper_limits limits = {}) {
  auto const answer =
      [source, root = std::shared_ptr<minja::TemplateNode>()](std::string const& question) mutable {
        try {
          if (root == nullptr)
            root = minja::Parser::parse(
                jinja_by_code_points(source.text),
                {.trim_blocks = true, .lstrip_blocks = true, .keep_trailing_newline = false});
          return root->render(
              detail::template_context(source, nlohmann::ordered_json::parse(question)));
        } catch (std::exception const& problem) {
          throw std::runtime_error(detail::line_of_problem(problem.what()));
        }
      };
  auto const process = std::make_shared<helper_process>(answer, limits);
  return [process, name = source.name](std::span<chat_message const> messages, bool answer_next) {
    nlohmann::ordered_json question{{"messages", nlohmann::ordered_json::array()},
                                    {"add_generation_prompt", answer_next}};
    for (auto const& message : messages)
      question["messages"].push_back({{"role", message.role}, {"content", message.content}});
    try {
      return process->ask(question.dump());
    } catch (parallel::error const& problem) {
      parallel::fail(name, ": its chat_template cannot be run: ", problem.what());
    }
  };
}

}  // namespace mpt
