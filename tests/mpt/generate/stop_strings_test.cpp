#include <doctest/doctest.h>

#include <mpt/generate/stop_strings.hpp>

#include "mpt/tokenizer/small_tokenizer.hpp"

namespace stop_strings_test {

/// Feeds the ids of `text` one by one; what was shown as it became certain must be what is left.
std::string stopped(std::string const& text, std::vector<std::string> stops,
                    bool* ended = nullptr) {
  auto const words = tokenizer_test::small_tokenizer();
  mpt::stopped_text out(words, std::move(stops));
  std::string shown;
  bool end = false;
  for (auto const id : words.encode(text)) {
    end = out.add(id);
    shown += out.take();
    if (end) break;
  }
  auto const all = out.finish();
  shown += out.take();
  CHECK(shown == all);
  if (ended != nullptr) *ended = end;
  return all;
}

TEST_CASE("a text ends before the first stop string, however tokens fall") {
  bool ended = false;
  CHECK(stopped("The dog jumps. The fox", {"fox", "umps"}, &ended) == "The dog j");
  CHECK(ended);
  CHECK(stopped("a\n\nb", {"\n\n"}, &ended) == "a");
  CHECK(ended);
  CHECK(stopped("caf\xc3\xa9 au lait", {"\xc3\xa9 "}, &ended) == "caf");
  CHECK(ended);
}

TEST_CASE("what only looks like the beginning of one is shown in the end") {
  bool ended = true;
  CHECK(stopped("ab abab", {"abac"}, &ended) == "ab abab");
  CHECK_FALSE(ended);
  CHECK(stopped("plain", {}, &ended) == "plain");
  CHECK(stopped("plain", {""}, &ended) == "plain");
  CHECK_FALSE(ended);
}

TEST_CASE("ids that no token has are left out") {
  auto const words = tokenizer_test::small_tokenizer();
  mpt::stopped_text out(words, {});
  CHECK_FALSE(out.add(words.size() + 5));
  CHECK(out.finish().empty());
}

}  // namespace stop_strings_test
