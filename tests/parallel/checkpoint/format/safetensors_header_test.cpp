#include <string>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/safetensors_header.hpp>
#include <parallel/support/files.hpp>
#include <support/text_cases.hpp>

namespace safetensors_header_test {
namespace pc = parallel::checkpoint;

std::string problem(std::string const& text, std::uint64_t bytes) {
  return test::message_of(
      [&] { static_cast<void>(pc::parse_safetensors_header(text, bytes, "f")); });
}

TEST_CASE(
    "safetensors header: lists tensors in the order of their bytes, and survives a round trip") {
  auto const header = pc::parse_safetensors_header(
      R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},"__metadata__":{"format":"pt"},)"
      R"("a \"ü\"":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},)"
      R"("none":{"dtype":"I64","shape":[4,0],"data_offsets":[2,2]}}   )",
      26, "f");
  REQUIRE(header.tensors.size() == 3);
  CHECK(header.tensors[0].name == "a \"ü\"");
  CHECK(header.tensors[0].size() == 1);
  CHECK(header.tensors[1].name == "none");
  CHECK(header.tensors[1].size() == 0);
  CHECK(header.tensors[2].extents == std::vector<parallel::index>{2, 3});
  CHECK(header.metadata.at("format") == "pt");
  auto const reparsed =
      pc::parse_safetensors_header(pc::format_safetensors_header(header, "f"), 26, "f");
  CHECK(reparsed.tensors == header.tensors);
  CHECK(reparsed.metadata == header.metadata);
  for (auto const* const empty : {"{}", R"({"__metadata__":{}})", R"({"__metadata__":null})"})
    CHECK(pc::parse_safetensors_header(empty, 0, "f").tensors.empty());
}

TEST_CASE("safetensors header: wrong headers are refused with the reason") {
  for (auto const& [text, message] :
       test::text_cases("parallel/checkpoint/format/refused.txt",
                        "safetensors headers, after the bytes of the data")) {
    auto const space = text.find(' ');
    CHECK(problem(text.substr(space + 1), std::stoull(text)) == message);
  }
  CHECK(test::contains(problem("", 0), "must begin with '{'"));
}

TEST_CASE("safetensors header: is padded with spaces to 8 bytes, or to the reserved space") {
  auto const packed = pc::pack_safetensors_header("{\"a\":1}", 0, "f");
  CHECK(packed == std::string("\x08\0\0\0\0\0\0\0{\"a\":1} ", 16));
  CHECK(pc::pack_safetensors_header("{}", 32, "f").size() == 32);
  CHECK(test::contains(test::message_of([] {
                         static_cast<void>(
                             pc::pack_safetensors_header(std::string(25, ' '), 32, "f"));
                       }),
                       "a header of 25 bytes is too long"));
}

}  // namespace safetensors_header_test
