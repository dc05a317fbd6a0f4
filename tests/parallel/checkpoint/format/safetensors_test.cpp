#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/format/safetensors.hpp>
#include <parallel/support/files.hpp>
#include <support/data.hpp>

namespace safetensors_test {
namespace pc = parallel::checkpoint;

std::string file_of(std::string const& header, std::string const& data) {
  return pc::pack_safetensors_header(header, 0, "test") + data;
}

TEST_CASE("safetensors: tensors are read whole, in slices, and converted") {
  test::temporary_folder const folder;
  std::vector<float> values(200'000);  // more than one conversion chunk
  std::iota(values.begin(), values.end(), -5.0F);
  std::string const data(reinterpret_cast<char const*>(values.data()), values.size() * 4);
  test::write_all(
      folder / "f",
      file_of(R"({"m":{"dtype":"F32","shape":[2,100000],"data_offsets":[0,800000]}})", data));
  pc::safetensors_file const file(folder / "f");
  CHECK(file.at("m").extents == std::vector<parallel::index>{2, 100'000});
  CHECK(file.find("x") == nullptr);

  std::vector<float> part(3);
  file.read("m", 99'999, std::span(part));
  CHECK(part == std::vector<float>{99'994.0F, 99'995.0F, 99'996.0F});
  file.read_bytes("m", 199'997, 200'000, std::as_writable_bytes(std::span(part)));
  CHECK(part.back() == values.back());
  std::vector<double> doubles(values.size());
  file.read("m", 0, std::span(doubles));
  CHECK(std::equal(doubles.begin(), doubles.end(), values.begin()));
  std::vector<parallel::bf16> narrow(150'000);
  file.read("m", 50'000, std::span(narrow));
  CHECK(narrow.back() == parallel::bf16(values.back()));

  CHECK(test::contains(test::message_of([&] { file.read("x", 0, std::span(part)); }),
                       "has no tensor \"x\""));
  CHECK(test::contains(test::message_of([&] { file.read("m", 199'998, std::span(part)); }),
                       "has 200000 elements; 3 from 199998 on"));
  CHECK(test::contains(test::message_of([&] { file.read("m", -1, std::span(part)); }),
                       "were asked for"));
  CHECK(test::contains(test::message_of([&] { file.read("m", INT64_MAX, std::span(part)); }),
                       "were asked for"));
  CHECK(test::contains(test::message_of([&] {
                         file.read_bytes("m", 0, 4, std::as_writable_bytes(std::span(part)));
                       }),
                       "4 elements of 4 bytes do not fill 12"));
}

TEST_CASE("safetensors: an unknown element type is listed, and reading it is a clear error") {
  test::temporary_folder const folder;
  test::write_all(folder / "f",
                  file_of(R"({"q":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]},)"
                          R"("w":{"dtype":"I32","shape":[1],"data_offsets":[3,7]}})",
                          std::string("abc\x2a\0\0\0", 7)));
  pc::safetensors_file const file(folder / "f");
  CHECK(file.at("q").type_name == "F8_E4M3");
  std::vector<std::byte> bytes(3);
  CHECK(test::contains(test::message_of([&] { file.read_bytes("q", 0, 3, bytes); }),
                       "elements of type F8_E4M3, which cannot be read here"));
  std::vector<float> floats(1);
  CHECK(test::contains(test::message_of([&] { file.read("w", 0, std::span(floats)); }),
                       "type I32, which are not converted to f32"));
  std::int32_t answer = 0;
  file.read_bytes("w", 0, 1, std::as_writable_bytes(std::span(&answer, 1)));
  CHECK(answer == 42);
}

TEST_CASE("safetensors: files that are too short or claim too much are refused") {
  test::temporary_folder const folder;
  auto const problem = [&](std::string const& content) {
    test::write_all(folder / "f", content);
    return test::message_of([&] { pc::safetensors_file(folder / "f"); });
  };
  auto const good = file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "abcd");
  CHECK(problem(good).empty());
  CHECK(test::contains(problem(""), "inside the header's length"));
  CHECK(test::contains(problem("PK\x03\x04rubbish"), "not a safetensors file?"));
  CHECK(test::contains(problem(std::string("\x10\0\0\0\0\0\0\0{}", 10)), "or cut short"));
  CHECK(test::contains(problem(good.substr(0, good.size() - 1)), "cut short or damaged"));
  CHECK(test::contains(problem(good + "x"), "the file at 5"));
}

TEST_CASE("safetensors: every mutation of a file is read within its bounds or throws an error") {
  test::temporary_folder const folder;
  auto const good = file_of(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})",
      std::string(32, 'x'));
  std::mt19937 random(7);
  int opened = 0;
  for (int round = 0; round < 4000; ++round) {
    auto content = good;
    for (auto edits = 1 + random() % 3; edits > 0; --edits) {
      auto const offset = random() % content.size();
      switch (random() % 5) {
        case 0: content[offset] = static_cast<char>(random()); break;
        case 1: content.erase(offset, 1 + random() % 8); break;
        case 2:
          content.insert(offset, content.substr(random() % content.size(), random() % 30));
          break;
        case 3: content[offset] = "0123456789{}[],:\"-"[random() % 18]; break;
        default: content.resize(offset); break;
      }
      if (content.empty()) content = "x";
    }
    test::write_all(folder / "f", content);
    try {
      pc::safetensors_file const file(folder / "f");
      ++opened;
      for (auto const& entry : file.tensors()) {
        if (entry.type == pc::element_type::unknown) continue;
        REQUIRE(entry.size() <= static_cast<parallel::index>(content.size()));
        std::vector<std::byte> bytes(static_cast<std::size_t>(entry.size()) *
                                     pc::size_of(entry.type));
        file.read_bytes(entry.name, 0, entry.size(), bytes);
      }
    } catch (parallel::error const& problem) {
      REQUIRE(test::contains(problem.what(), "/f: "));
    }
  }
  CHECK(opened > 0);
}

TEST_CASE("safetensors: real files of every element type are read as they were written") {
  auto const data = test::data_folder();
  if (data.empty()) return;
  auto const samples = data / "safetensors";
  pc::safetensors_file const overall(samples / "samples/overall.safetensors");
  CHECK(overall.metadata().at("test") == "a");
  CHECK(overall.tensors().size() == 9);
  for (auto const& entry : overall.tensors()) {
    pc::safetensors_file const single(samples / "samples" / (entry.name + ".safetensors"));
    CHECK(single.at(entry.name).type == entry.type);
    CHECK(entry.type != pc::element_type::unknown);
    CHECK(entry.extents == std::vector<parallel::index>{6});
    std::vector<std::byte> a(6 * pc::size_of(entry.type));
    auto b = a;
    overall.read_bytes(entry.name, 0, 6, a);
    single.read_bytes(entry.name, 0, 6, b);
    CHECK(a == b);
    if (!pc::is_real(entry.type)) continue;
    std::vector<float> values(6);
    overall.read(entry.name, 0, std::span(values));
    CHECK(values == std::vector<float>{-3, -2, -1, 0, 1, 2});
  }
  pc::safetensors_file const doubles(samples / "swift/tensor-2d-float64.safetensors");
  std::vector<double> values(6);
  doubles.read("embedding", 0, std::span(values));
  CHECK(values == std::vector<double>{1, 2, 3, 24, 25, 26});
  CHECK(pc::safetensors_file(samples / "swift/tensor-4d-float32.safetensors")
            .at("embedding")
            .extents.size() == 4);

  pc::safetensors_file const gemma(samples / "tiny_gemma_f16.safetensors");
  std::vector<float> row(64);
  gemma.read("model.embed_tokens.weight", 64, std::span(row));
  CHECK(std::abs(row[0] - 1.47F) < 1e-3F);
  CHECK(std::abs(row[1] + 0.1748F) < 1e-4F);
}

}  // namespace safetensors_test
