// Whatever a file says is text on a page.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/report/html.hpp>

namespace report_html_test {

TEST_CASE("report html: markup, control characters and bytes that are no UTF-8 are text") {
  CHECK(mpt::report::escape("<b a='1'>\"&amp;") == "&lt;b a=&#39;1&#39;&gt;&quot;&amp;amp;");
  CHECK(mpt::report::escape("a\x1b[31m\x07\nb\xff") ==
        "a\xEF\xBF\xBD[31m\xEF\xBF\xBD\nb\xEF\xBF\xBD");
  CHECK(mpt::report::escape("größer → 1") == "größer → 1");
}

TEST_CASE("report html: no text ends the script element that holds it") {
  std::string const hostile = "</script><!--<script>\xE2\x80\xA8";
  auto const text = mpt::report::json_in_script({{"name", hostile}});
  CHECK(text.find('<') == std::string::npos);
  CHECK(nlohmann::json::parse(text).at("name") == hostile);
}

TEST_CASE("report html: base64 is that of RFC 4648") {
  CHECK(mpt::report::base64("").empty());
  CHECK(mpt::report::base64("f") == "Zg==");
  CHECK(mpt::report::base64("fo") == "Zm8=");
  CHECK(mpt::report::base64("foo") == "Zm9v");
  CHECK(mpt::report::base64("foobar") == "Zm9vYmFy");
  CHECK(mpt::report::base64("\xff\xfe\xfd") == "//79");
}

}  // namespace report_html_test
