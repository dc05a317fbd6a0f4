// String operations that templates use, with expected values from Python 3.11.
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/tokenizer/python_string.hpp>

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

}  // namespace python_string_test
