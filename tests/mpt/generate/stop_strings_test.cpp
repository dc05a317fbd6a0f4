#include <doctest/doctest.h>

#include <mpt/generate/stop_strings.hpp>

#include "mpt/tokenizer/small_tokenizer.hpp"

namespace stop_strings_test {

/// Adds the ids of `text` one by one and returns the stopped text; checks that the pieces that
/// take() returned join to the same text.
std::string stopped(std::string const& text, std::vector<std::string> stops,
                    bool* ended = nullptr) {
  auto const tokenizer = tokenizer_test::small_tokenizer();
  mpt::stopped_text out(tokenizer, std::move(stops));
  std::string shown;
  bool end = false;
  for (auto const id : tokenizer.encode(text)) {
    end = out.add(id);
    shown += out.take();
    if (end) break;
  }
  auto const complete = out.finish();
  shown += out.take();
  CHECK(shown == complete);
  if (ended != nullptr) *ended = end;
  return complete;
}

TEST_CASE("stopped_text: a text ends before the first stop string, wherever tokens end") {
  bool ended = false;
  CHECK(stopped("The dog jumps. The fox", {"fox", "umps"}, &ended) == "The dog j");
  CHECK(ended);
  CHECK(stopped("a\n\nb", {"\n\n"}, &ended) == "a");
  CHECK(ended);
  CHECK(stopped("caf\xc3\xa9 au lait", {"\xc3\xa9 "}, &ended) == "caf");
  CHECK(ended);
}

TEST_CASE(
    "stopped_text: the beginning of a stop string that is not completed is shown at the end") {
  bool ended = true;
  CHECK(stopped("ab abab", {"abac"}, &ended) == "ab abab");
  CHECK_FALSE(ended);
  CHECK(stopped("plain", {}, &ended) == "plain");
  CHECK(stopped("plain", {""}, &ended) == "plain");
  CHECK_FALSE(ended);
}

TEST_CASE("stopped_text: ids without a token are ignored") {
  auto const tokenizer = tokenizer_test::small_tokenizer();
  mpt::stopped_text out(tokenizer, {});
  CHECK_FALSE(out.add(tokenizer.size() + 5));
  CHECK(out.finish().empty());
}

}  // namespace stop_strings_test
