// String operations that templates use, with expected values from Python 3.11.
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/tokenizer/chat/jinja_text.hpp>
#include <mpt/tokenizer/python_string.hpp>

#include "mpt/data/scratch.hpp"

namespace python_string_test {

using namespace mpt::python;

std::string changed(std::u32string (*change)(std::u32string_view), std::string const& text) {
  return encode(change(decode(text)));
}

TEST_CASE("python_string: upper, lower, title and capitalize equal Python's beyond ASCII") {
  CHECK(changed(upper, "éß \u0149 \uFB01 ǆ") == "ÉSS \u02BCN FI Ǆ");
  CHECK(changed(lower, "ÀΟΔΟΣ ΣΑ İ") == "àοδος σα i\u0307");
  CHECK(changed(title, "\uFB01n ǆa don't ßa éa2b") == "Fin ǅa Don'T Ssa Éa2B");
  CHECK(changed(capitalize, "ǆÉ ΟΣ") == "ǅé ος");
  CHECK(changed(capitalize, "").empty());
}

TEST_CASE("python_string: slices with any bounds and steps equal Python's") {
  using indices = std::vector<std::size_t>;
  CHECK(slice_indices(4, 1, 3, 1) == indices{1, 2});
  CHECK(slice_indices(4, -100, 100, 3) == indices{0, 3});
  CHECK(slice_indices(4, 3, 1, 1).empty());
  CHECK(slice_indices(4, {}, {}, -1) == indices{3, 2, 1, 0});
  CHECK(slice_indices(4, -2, 0, -1) == indices{2, 1});
  CHECK(slice_indices(0, {}, {}, -1).empty());
  CHECK(slice_indices(4, 0, {}, std::numeric_limits<std::int64_t>::max()) == indices{0});
  CHECK(slice_indices(4, 3, {}, std::numeric_limits<std::int64_t>::min()) == indices{3});
  CHECK(slice_indices(4, std::numeric_limits<std::int64_t>::min(), {}, 2) == indices{0, 2});
}

TEST_CASE("jinja_text: string operations of a template are rewritten, everything else stays") {
  for (auto const& [from, to] :
       {std::pair{"{{ a[1:] }}", "{{ (py_slice(a, 1, none, none)) }}"},
        std::pair{"{{ m[0]['role'].strip('x') }}",
                  "{{ (py_strip((py_item(m, 0))['role'], 'x')) }}"},
        std::pair{"{% for c in m.t if c %}", "{% for c in py_items( m.t ) if c %}"},
        std::pair{"{%- if x is string and {'a': [1, 2]} -%}",
                  "{%- if x is string and {'a': [1, 2]} -%}"},
        std::pair{"{{ '\\u00e9\\n\\x27' }}", "{{ 'é\\n\\'' }}"},
        std::pair{"{# a[1:] #}b[1:]{{ 'c[1:]' }}", "{# a[1:] #}b[1:]{{ 'c[1:]' }}"},
        std::pair{"{{ x | join('[0]') }}{{ [1][0] }}",
                  "{{ x | join('[0]') }}{{ (py_item([1], 0)) }}"},
        std::pair{"{% set a = (b if c else d)[::2] %}",
                  "{% set a = (py_slice((b if c else d), none, none, 2)) %}"},
        std::pair{"{{ x[", "{{ x["}, std::pair{"{{", "{{"}, std::pair{"{#", "{#"}})
    CHECK(mpt::jinja_by_code_points(from) == to);
}

TEST_CASE("jinja_text: a template too deep, too long or with half a character is refused") {
  auto const problem = [](std::string const& text) {
    return data_test::message_of([&] { static_cast<void>(mpt::jinja_by_code_points(text)); });
  };
  CHECK(problem("{{ " + std::string(201, '(')) == "brackets are nested more than 200 deep");
  CHECK(problem(std::string(1'048'577, ' ')) == "it has 1048577 bytes, more than 1048576");
  CHECK(problem("{{ '\\ud800' }}") == "the escape \\ud800 is no character");
}

}  // namespace python_string_test
