// The note on attention without fused kernels, with fake streams.
#include <doctest/doctest.h>

#include <string_view>
#include <vector>

#include <mpt/train/setup/plain_attention_note.hpp>

namespace plain_attention_note_test {

struct stream_without_reasons {};

struct telling_stream {
  std::vector<std::string_view> reasons;
};
std::vector<std::string_view> plain_attention_reasons(telling_stream& s) { return s.reasons; }

TEST_CASE("plain attention note: one line has all reasons, and without a reason there is no note") {
  stream_without_reasons silent;
  CHECK(mpt::plain_attention_note(silent).empty());
  telling_stream telling;
  CHECK(mpt::plain_attention_note(telling).empty());
  telling.reasons = {"elements are not bf16", "scores are capped"};
  CHECK(mpt::plain_attention_note(telling) ==
        "warning: attention runs on plain kernels, which take many times as long as cuDNN's: "
        "elements are not bf16; scores are capped");
}

}  // namespace plain_attention_note_test
