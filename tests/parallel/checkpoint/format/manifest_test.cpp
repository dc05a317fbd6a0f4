#include <random>
#include <string>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/manifest.hpp>
#include <parallel/core/hexadecimal.hpp>
#include <parallel/core/version.hpp>
#include <parallel/support/files.hpp>

namespace manifest_test {
namespace pc = parallel::checkpoint;

pc::manifest example() {
  pc::manifest out;
  out.state = {{"batch", 12}, {"text", "ü"}};
  out.slices.files["f"] = 100;
  out.slices.tensors["w"] = {
      pc::element_type::f32, {2, 2}, {{0, 1, "f", 8, 4, 1}, {1, 4, "f", 12, 12, 2}}};
  return out;
}

std::string parse_error(std::string const& text) {
  return test::message_of([&] { static_cast<void>(pc::parse_manifest(text, "m")); });
}

std::string with_checksum(std::string const& body) {
  return body + ",\n \"checksum\": \"" +
         parallel::hexadecimal(pc::checksum(std::string_view(body))) + "\"}\n";
}

TEST_CASE("manifest: its text is JSON, and parsing the text gives the same manifest") {
  auto const text = pc::format_manifest(example(), "m");
  auto const read = pc::parse_manifest(text, "m");
  CHECK(read.state == example().state);
  CHECK(read.slices.tensors.at("w").slices == example().slices.tensors.at("w").slices);
  CHECK(pc::format_manifest(read, "m") == text);
  CHECK(nlohmann::json::parse(text).at("version") == 2);
  CHECK(nlohmann::json::parse(text).at("library") == to_string(parallel::library_version));
}

TEST_CASE("manifest: one of an older library, which states no library version, is read") {
  auto older = pc::format_manifest(example(), "m");
  auto const line = older.find(" \"library\"");
  older.erase(line, older.find('\n', line) + 1 - line);
  older = with_checksum(older.substr(0, older.find(",\n \"checksum\"")));
  CHECK(pc::parse_manifest(older, "m").state == example().state);
}

TEST_CASE("manifest: a text that is truncated or changed anywhere is refused") {
  auto const text = pc::format_manifest(example(), "m");
  for (std::size_t size = 0; size < text.size(); ++size)
    REQUIRE(test::contains(parse_error(text.substr(0, size)), "it is cut short or damaged"));
  for (std::size_t offset = 0; offset < text.size(); ++offset) {
    auto changed = text;
    changed[offset] ^= 4;
    REQUIRE(test::contains(parse_error(changed), "it is cut short or damaged"));
  }
}

TEST_CASE("manifest: the content of a text with a correct checksum is validated too") {
  CHECK(test::contains(parse_error(with_checksum("{")), "not valid JSON"));
  CHECK(test::contains(parse_error(with_checksum(R"({"format":"x")")), "its format is not"));
  CHECK(test::contains(parse_error(with_checksum(R"({"format":"parallel.checkpoint","version":3)")),
                       "is of version 3, this program reads 1 to 2"));
  CHECK(test::contains(parse_error(with_checksum(
                           R"({"format":"parallel.checkpoint","version":3,"library":"0.2.0")")),
                       "is of version 3, written by ParallelLM 0.2.0, this program reads 1 to 2"));
  CHECK(test::contains(
      parse_error(with_checksum(R"({"format":"parallel.checkpoint","version":1,"state":3)")),
      "\"state\" must be an object"));
  auto incomplete = example();
  incomplete.slices.tensors["w"].slices.pop_back();
  CHECK(test::contains(parse_error(pc::format_manifest(incomplete, "m")), "in no slice"));
}

TEST_CASE(
    "manifest: a changed text with a correct checksum gives valid slices or throws an error") {
  auto const text = pc::format_manifest(example(), "m");
  auto const body = text.substr(0, text.find(",\n \"checksum\""));
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    auto content = body;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      auto const offset = random() % content.size();
      switch (random() % 4) {
        case 0: content[offset] = static_cast<char>(random()); break;
        case 1: content.erase(offset, 1 + random() % 8); break;
        case 2:
          content.insert(offset, content.substr(random() % content.size(), random() % 40));
          break;
        default: content[offset] = "0123456789{}[],:\"-"[random() % 18]; break;
      }
      if (content.empty()) content = "{";
    }
    try {
      auto const read = pc::parse_manifest(with_checksum(content), "m");
      for (auto const& [name, tensor] : read.slices.tensors)
        for (auto const& slice : tensor.slices)
          REQUIRE(slice.offset + slice.bytes <= read.slices.files.at(slice.file));
    } catch (parallel::error const& found) {
      REQUIRE(test::contains(found.what(), "m: "));
    }
  }
}

TEST_CASE(
    "manifest: reading requires that every file of the manifest exists and has its stated size") {
  test::temporary_folder const folder;
  test::write_all(folder / "manifest.json", pc::format_manifest(example(), "m"));
  auto const read = [&] {
    return test::message_of([&] { static_cast<void>(pc::read_manifest(folder.path())); });
  };
  CHECK(test::contains(read(), "/f: cannot read the size of"));
  test::write_all(folder / "f", std::string(99, 'x'));
  CHECK(test::contains(read(), "has 99 bytes, the manifest says 100"));
  test::write_all(folder / "f", std::string(100, 'x'));
  CHECK(read().empty());
}

}  // namespace manifest_test
