// What a run says of attention without fused kernels, by streams that only tell.
#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include <mpt/train/plain_attention_note.hpp>

namespace plain_attention_note_test {

struct silent_stream {};

struct telling_stream {
  std::vector<std::string_view> reasons;
};
std::vector<std::string_view> plain_attention(telling_stream& s) { return s.reasons; }

TEST_CASE("a run says every reason in one line, and nothing without one") {
  silent_stream silent;
  CHECK(mpt::plain_attention_note(silent).empty());
  telling_stream telling;
  CHECK(mpt::plain_attention_note(telling).empty());
  telling.reasons = {"elements are not bf16", "scores are capped"};
  CHECK(mpt::plain_attention_note(telling) ==
        "warning: attention runs on plain kernels, which take many times as long as cuDNN's: "
        "elements are not bf16; scores are capped");
}

}  // namespace plain_attention_note_test
