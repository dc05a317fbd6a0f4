// Chat templates against jinja2 (tests/reference/make_chat_golden.py).
#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/tokenizer/chat/jinja/evaluator.hpp>
#include <mpt/tokenizer/chat/jinja_renderer.hpp>

#include "mpt/data/scratch.hpp"
#include "support/checkout.hpp"

namespace jinja_renderer_test {

nlohmann::ordered_json golden() {
  std::ifstream file(test::checkout() / "tests/golden/chat/templates.json");
  return nlohmann::ordered_json::parse(file);
}

std::string render(std::string const& text, std::vector<mpt::chat_message> const& messages = {},
                   bool answer_next = false, std::chrono::local_seconds date = {}) {
  return mpt::make_jinja_renderer({"t", text, {{"bos_token", "<s>"}, {"eos_token", "</s>"}}}, date)(
      messages, answer_next);
}

std::string problem(std::string const& text) {
  std::string const prefix = "t: its chat_template cannot be run: ";
  auto const message = data_test::message_of([&] { static_cast<void>(render(text)); });
  return message.starts_with(prefix) ? message.substr(prefix.size()) : "not refused: " + message;
}

TEST_CASE("Jinja renderer: templates of real models give jinja2's texts and errors") {
  auto const all = golden();
  REQUIRE(all.at("cases").size() >= 48);
  for (auto const& one : all.at("cases")) {
    std::string const name = one.at("template");
    CAPTURE(name);
    std::vector<mpt::chat_message> messages;
    for (auto const& message : one.at("messages"))
      messages.push_back({message.at("role"), message.at("content")});
    auto const run = [&] {
      return render(all.at("templates").at(name), messages, one.at("add_generation_prompt"));
    };
    if (one.contains("text"))
      CHECK(run() == one.at("text").get<std::string>());
    else
      CHECK(data_test::message_of([&] {
              static_cast<void>(run());
            }).find(one.at("error").get<std::string>()) != std::string::npos);
  }
}

TEST_CASE("Jinja renderer: statements, filters, tests and methods give jinja2's texts and errors") {
  using namespace mpt::jinja;
  auto const all = golden();
  REQUIRE(all.at("language").size() >= 100);
  for (auto const& one : all.at("language")) {
    auto const text = one.at("template").get<std::string>();
    CAPTURE(text);
    std::string result;
    std::string error;
    try {
      result = mpt::jinja::render(parse(text), from_json(all.at("context")), {});
    } catch (render_error const& refused) {
      error = refused.what();
    }
    if (one.contains("text"))
      CHECK(result == one.at("text").get<std::string>());
    else
      CHECK(error.starts_with(one.at("error").get<std::string>()));
    CHECK(error.empty() == one.contains("text"));
  }
}

TEST_CASE("Jinja renderer: an error is one line that names the line of the template") {
  CHECK(problem("\n{{ raise_exception('one\ntwo') }}") == "one two, in line 2");
  CHECK(problem("a\n{{ 'a'.split('') }}") == "empty separator, in line 2");
  CHECK(problem("\n\n{{ nobody.x() }}") == "'nobody' is undefined, in line 3");
  CHECK(problem("{{ 1 // 0 }}") == "integer division or modulo by zero, in line 1");
  CHECK(problem("{% for m in messages %}\n") == "the template ends before a tag endfor, in line 1");
  CHECK(problem("{% include '/etc/passwd' %}") ==
        "the tag 'include' needs another file; a chat template is one file, in line 1");
  CHECK(problem("{{ 1 }}\n{{ messages | sparkle }}") ==
        "the filter 'sparkle' is not supported, in line 2");
  CHECK(problem("\xff") == "it is not UTF-8");
}

TEST_CASE("Jinja renderer: a template that does not end, or takes too much, is an error") {
  for (std::string const text :
       {"{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(s='ab') %}{% for i in range(80) %}{% set ns.s = ns.s + ns.s %}"
        "{% endfor %}",
        "{% set ns = namespace(s='ab') %}{% for i in range(80) %}{% set ns.s = ns.s ~ ns.s %}"
        "{% endfor %}",
        "{{ 'x'|indent(100000000000) }}", "{{ 'x'.center(100000000000) }}",
        "{{ '%100000000d' % 1 * 100 }}", "{{ ('{0:1<99999999}' * 200).format('x') }}",
        "{% set a = 'x' * 100000000 %}{{ a ~ a ~ a ~ a ~ a ~ a ~ a }}",
        "{% set a = 'a' * 50000000 %}{% for i in range(9999) %}{{ a.isalpha() and a|length }}"
        "{% endfor %}",
        "{% set s = 'ab' * 10000000 %}{% for i in range(9999) %}{{ s[1:] is none }}{% endfor %}"}) {
    CAPTURE(text);
    CHECK(problem(text).find("needs too much memory, in line 1") != std::string::npos);
  }
  CHECK(problem("{{ 'ab' * 1000000000000 }}").starts_with("it needs too much memory"));
  CHECK(problem("{% macro f(x) %}{{ f(x + 1) }}{% endmacro %}{{ f(1) }}")
            .starts_with("it recurses too deep"));
  CHECK(problem("{% set ns = namespace(l=[1]) %}{% for i in range(999) %}"
                "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}")
            .starts_with("it needs too much memory"));
  CHECK(problem("{% set ns = namespace(l=[]) %}{% for i in range(999) %}"
                "{% set ns.l = [ns.l] %}{% endfor %}")
            .starts_with("a value is nested too deep"));
  CHECK(problem("{% set ns = namespace(f=1) %}{% for i in range(100000) %}"
                "{% set ns.f = [ns.f].count %}{% endfor %}")
            .starts_with("a value is nested too deep"));
  CHECK(problem("{% set ns = namespace(f=1) %}{% for i in range(100000) %}"
                "{% for x in [ns.f] %}{% set ns.f = loop %}{% endfor %}{% endfor %}")
            .starts_with("a value is nested too deep"));
  for (std::string const open : {"(", "[", "-", "not ", "{'a': ", "1 if "}) {
    std::string text = "{{ ";
    for (int i = 0; i < 30'000; ++i) text += open;
    CHECK(problem(text).starts_with("it is nested too deep"));
  }
  std::string sum = "{{ 1";
  for (int i = 0; i < 9'999; ++i) sum += " + 1";
  CHECK(problem(sum + " }}").starts_with("it is nested too deep"));
  CHECK(problem(std::string(1'048'577, ' ')) == "it has 1048577 bytes, more than 1048576");
}

TEST_CASE(
    "Jinja renderer: the time to read a template grows with its length, not with its square") {
  auto const seconds = [](int names) {
    std::string text;
    for (int i = 0; i < names; ++i) text += "{% set v" + std::to_string(i) + " = 1 %}";
    for (int i = 0; i < names; ++i) text += "{% if v0 %}{% set v0 = 2 %}{% endif %}";
    auto best = std::chrono::duration<double>::max();
    for (int repetition = 0; repetition < 5; ++repetition) {
      auto const begin = std::clock();
      static_cast<void>(mpt::jinja::parse(text));
      best = std::min(best, std::chrono::duration<double>(
                                static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC));
    }
    return best;
  };
  CHECK(seconds(2400) <
        20 * seconds(300));  // eight times the length; its square is 64 times as much
}

TEST_CASE("Jinja renderer: long conversations are far below the limits") {
  std::vector<mpt::chat_message> const messages(300, {"user", std::string(20'000, 'x')});
  CHECK(render("{% set ns = namespace(last='', n=0) %}{% for m in messages %}"
               "{% if m.content == ns.last and '</think>' not in m.content %}"
               "{% set ns.n = ns.n + m.content.replace('x', 'y')|length %}{% endif %}"
               "{% set ns.last = m.content %}{% endfor %}{{ ns.n }}",
               messages) == "5980000");
}

TEST_CASE("Jinja renderer: strftime_now writes the date that the renderer was made with") {
  using namespace std::chrono;
  auto const date = local_days(2024y / 3 / 9) + 7h + 5min;
  CHECK(render("{{ strftime_now('%Y-%m-%d %-d %e %B %H:%M:%S%z|%f|%%') }}", {}, false, date) ==
        "2024-03-09 9  9 March 07:05:00|000000|%");
  CHECK(mpt::local_now() - date > 24h);
}

TEST_CASE("Jinja renderer: special tokens that a tokenizer lacks are undefined, tools are none") {
  CHECK(
      render(
          "{{ bos_token }}{{ unk_token is defined }}{{ tools is none }}{{ documents is none }}") ==
      "<s>FalseTrueTrue");
}

TEST_CASE("Jinja renderer: a renderer may be used repeatedly and copied") {
  auto const one = mpt::make_jinja_renderer({"t", "{{ messages[0].content }}"}, {});
  auto const other = one;
  std::vector<mpt::chat_message> const messages{{"user", "a"}};
  CHECK(one(messages, false) + other(messages, true) == "aa");
}

}  // namespace jinja_renderer_test
