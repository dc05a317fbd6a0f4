#include <string>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/safetensors_header.hpp>
#include <parallel/support/files.hpp>

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
  CHECK(pc::parse_safetensors_header("{}", 0, "f").tensors.empty());
}

TEST_CASE("safetensors header: wrong headers are refused with the reason") {
  struct {
    char const* text;
    std::uint64_t bytes;
    char const* reason;
  } const cases[] = {
      {"", 0, "must begin with '{'"},
      {" {}", 0, "must begin with '{'"},
      {"{", 0, "not valid JSON"},
      {R"({"a":1})", 0, "tensor \"a\": expected a JSON object"},
      {R"({"a":{"shape":[],"data_offsets":[0,4]}})", 4, "lacks \"dtype\""},
      {R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4, "lacks \"shape\""},
      {R"({"a":{"dtype":"F32","shape":[]}})", 4, "lacks \"data_offsets\""},
      {R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0]}})", 4, "must be [begin, end]"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4,
       "\"shape\" must be a whole"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "\"shape\" must be a"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "do not lie within the 4"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4, "do not lie within the 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "[2] of F32 needs 8 bytes"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "more elements than 64 bits"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8, "without holes"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 8, "the file at 8"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
       6, "tensor \"b\" begins at byte 2, the one before it ends at 4"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "key \"a\" appears twice"},
      {R"({"__metadata__":[]})", 0, "\"__metadata__\" must be an object"},
      {R"({"__metadata__":{"a":1}})", 0, "\"a\" must be a string"},
  };
  for (auto const& entry : cases) {
    CAPTURE(entry.text);
    auto const found = problem(entry.text, entry.bytes);
    CHECK_MESSAGE(test::contains(found, entry.reason), found);
  }
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
