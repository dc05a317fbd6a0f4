// Chat templates against jinja2 (tests/reference/make_chat_golden.py).
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/tokenizer/chat/jinja_renderer.hpp>

#include "mpt/data/scratch.hpp"
#include "support/checkout.hpp"

namespace jinja_renderer_test {

std::string render(std::string const& text, std::vector<mpt::chat_message> const& messages,
                   bool answer_next) {
  return mpt::make_jinja_renderer({"t", text, "<s>", "</s>"}, {.time = std::chrono::seconds(2)})(
      messages, answer_next);
}

TEST_CASE("Jinja renderer: templates of real models give jinja2's texts and errors") {
  std::ifstream file(test::checkout() / "tests/golden/chat/templates.json");
  auto const golden = nlohmann::json::parse(file);
  REQUIRE(golden.at("cases").size() >= 48);
  for (auto const& one : golden.at("cases")) {
    std::string const name = one.at("template");
    CAPTURE(name);
    std::vector<mpt::chat_message> messages;
    for (auto const& message : one.at("messages"))
      messages.push_back({message.at("role"), message.at("content")});
    auto const run = [&] {
      return render(golden.at("templates").at(name), messages, one.at("add_generation_prompt"));
    };
    if (one.contains("text"))
      CHECK(run() == one.at("text").get<std::string>());
    else
      CHECK(data_test::message_of([&] {
              static_cast<void>(run());
            }).find(one.at("error").get<std::string>()) != std::string::npos);
  }
}

TEST_CASE("Jinja renderer: a wrong or endless template is one error that names the tokenizer") {
  for (std::string const text :
       {"{% for m in messages %}", "{{ messages[", "{% endfor %}", "{{ 1 +* }}", "{{ nobody.x() }}",
        "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}"
        "{% endfor %}{% endfor %}{% endfor %}",
        "{% macro f(x) %}{{ f(x + 1) }}{% endmacro %}{{ f(1) }}",
        "{% set ns = namespace(s='ab') %}{% for i in range(80) %}{% set ns.s = ns.s + ns.s %}"
        "{% endfor %}",
        "{{ 'ab' * 1000000000000 }}"}) {
    CAPTURE(text);
    CHECK(data_test::message_of([&] {
            static_cast<void>(render(text, {{"user", "x"}}, true));
          }).starts_with("t: its chat_template cannot be run: "));
  }
  for (auto const& row : {std::pair{"{% macro f(x) %}{{ f(x + 1) }}{% endmacro %}{{ f(1) }}",
                                    "it overflows the stack: it recurses, or is nested, too deep"},
                          std::pair{"{{ 1 // 0 }}", "it divides by zero"},
                          std::pair{"{{ 'x'|indent(100000000000) }}", "it needs too much memory"},
                          std::pair{"{{ 'a'.split('') }}", "empty separator, in line 1"},
                          std::pair{"\n{{ raise_exception('one\ntwo') }}", "one two, in line 2"}}) {
    std::string const text = row.first;
    CAPTURE(text);
    CHECK(data_test::message_of([&] {
            std::vector<mpt::chat_message> const messages{{"user", "x"}};
            static_cast<void>(mpt::make_jinja_renderer({"t", text, "", ""})(messages, true));
          }) == std::string("t: its chat_template cannot be run: ") + row.second);
    CHECK(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child process is left
  }
  for (std::string const text : {"{% include '/etc/passwd' %}", "{% import '/etc/passwd' as x %}",
                                 "{% extends '/etc/passwd' %}", "{{ open('/etc/passwd') }}",
                                 "{{ ''.__class__.__mro__ }}", "{{ lipsum.__globals__ }}"})
    CHECK(data_test::message_of([&] {
            static_cast<void>(render(text, {{"user", "x"}}, true));
          }).starts_with("t: its chat_template cannot be run: "));
  auto const deep = "{{ " + std::string(60'000, '(') + "1" + std::string(60'000, ')') + " }}";
  CHECK_THROWS_AS(static_cast<void>(render(deep, {}, false)), parallel::error);
}

TEST_CASE("Jinja renderer: a renderer may be used repeatedly and copied") {
  auto const one = mpt::make_jinja_renderer({"t", "{{ messages[0].content }}", "", ""});
  auto const other = one;
  std::vector<mpt::chat_message> const messages{{"user", "a"}};
  CHECK(one(messages, false) + other(messages, true) == "aa");
}

}  // namespace jinja_renderer_test
