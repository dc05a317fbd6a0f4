// encode_all, and GPT-2 and GPT-NeoX-20B against the reference tokenizers: (text, ids) pairs, and
// whole corpora by count, first ids and SHA-256 over the ids (the corpora need the sample data).
#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mpt/tokenizer/encode_all.hpp>
#include <mpt/tokenizer/small_tokenizer.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/tokenizer/tokenizer_files.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <support/data.hpp>
#include <tuple>
#include <utility>
#include <vector>

namespace encode_all_test {

using id_list = std::vector<std::int32_t>;

// FIPS 180-4; the constants are the first bits of square and cube roots of primes.
class sha256 {
 public:
  static std::string hex(std::vector<std::uint8_t> data) {
    std::uint64_t const bits = data.size() * 8;
    data.push_back(0x80);
    while (data.size() % 64 != 56) data.push_back(0);
    for (int i = 7; i >= 0; --i) data.push_back(static_cast<std::uint8_t>(bits >> (8 * i)));
    sha256 state;
    for (std::size_t offset = 0; offset < data.size(); offset += 64)
      state.block(data.data() + offset);
    std::string out;
    for (auto const word : state.h_)
      for (int i = 7; i >= 0; --i) out += "0123456789abcdef"[(word >> (4 * i)) & 15];
    return out;
  }

 private:
  sha256() {
    int count = 0;
    for (std::uint64_t p = 2; count < 64; ++p) {
      bool prime = true;
      for (std::uint64_t d = 2; d * d <= p; ++d) prime = prime && p % d != 0;
      if (!prime) continue;
      if (count < 8)
        h_[static_cast<std::size_t>(count)] = root_bits(std::sqrt(static_cast<double>(p)));
      k_[static_cast<std::size_t>(count++)] = root_bits(std::cbrt(static_cast<double>(p)));
    }
  }
  // The first 32 bits after the point; a double is precise enough, as the test below shows.
  static std::uint32_t root_bits(double root) {
    return static_cast<std::uint32_t>((root - std::floor(root)) * 4294967296.0);
  }
  void block(std::uint8_t const* data) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 16; ++i)
      for (std::size_t j = 0; j < 4; ++j) w[i] = w[i] << 8 | data[4 * i + j];
    for (std::size_t i = 16; i < 64; ++i)
      w[i] = w[i - 16] + w[i - 7] +
             (std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3)) +
             (std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10));
    auto v = h_;
    for (std::size_t i = 0; i < 64; ++i) {
      auto const e = v[4];
      auto const a = v[0];
      auto const t1 = v[7] + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                      ((e & v[5]) ^ (~e & v[6])) + k_[i] + w[i];
      auto const t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) +
                      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
      v = {t1 + t2, a, v[1], v[2], v[3] + t1, e, v[5], v[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) h_[i] += v[i];
  }

  std::array<std::uint32_t, 8> h_{};
  std::array<std::uint32_t, 64> k_{};
};

std::string gunzip(std::filesystem::path const& path) {
  auto* const file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::string text;
  char block[1 << 16];
  int got = 0;
  while ((got = gzread(file, block, sizeof block)) > 0)
    text.append(block, static_cast<std::size_t>(got));
  CHECK(got == 0);
  gzclose(file);
  return text;
}

// JSON lines end at '\n' only: a line may hold U+0085 and the like.
std::vector<nlohmann::json> json_lines(std::string_view text) {
  std::vector<nlohmann::json> rows;
  while (!text.empty()) {
    auto const end = std::min(text.find('\n'), text.size());
    if (end > 0) rows.push_back(nlohmann::json::parse(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return rows;
}

TEST_CASE("encode_all: the hash function of these tests is SHA-256") {
  CHECK(sha256::hex({'a', 'b', 'c'}) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("encode_all: GPT-2 and GPT-NeoX-20B give the ids of published vectors") {
  auto const data = test::data_folder();
  if (data.empty()) {
    MESSAGE("skipped: no ../shared/data");
    return;
  }
  for (auto const& [folder, vectors, min_rows] :
       {std::tuple("gpt2", "gpt2_vectors.jsonl", 217),
        std::tuple("gpt-neox-20b", "neox20b_vectors.jsonl", 148)}) {
    auto const source = mpt::tokenizer::load(data / "tokenizers" / folder);
    auto const rows = json_lines(parallel::read_text_file(data / "tokenizers/vectors" / vectors,
                                                          mpt::largest_tokenizer_file));
    CHECK(rows.size() >= static_cast<std::size_t>(min_rows));
    for (auto const& row : rows) {
      auto const text = row["text"].get<std::string>();
      CAPTURE(text);
      CHECK(source.encode(text) == row["ids"].get<id_list>());
    }
  }
}

TEST_CASE("encode_all: GPT-2 and GPT-NeoX-20B give the reference's ids of whole corpora") {
  auto const data = test::data_folder();
  if (data.empty()) {
    MESSAGE("skipped: no ../shared/data");
    return;
  }
  std::map<std::string, mpt::tokenizer> tokenizers;
  int checked = 0;
  auto const streams = nlohmann::json::parse(parallel::read_text_file(
      data / "tokenizers/vectors/derived_token_streams.json", mpt::largest_tokenizer_file));
  for (auto const& stream : streams) {
    auto const file = data / stream["file"].get<std::string>();
    if (!std::filesystem::exists(file)) continue;
    auto const name = stream["tokenizer"].get<std::string>();
    CAPTURE(stream["file"].get<std::string>());
    CAPTURE(name);
    if (!tokenizers.contains(name))
      tokenizers.emplace(name, mpt::tokenizer::load(data / "tokenizers" / name));
    auto const& source = tokenizers.at(name);
    auto const eos = stream["eos"].get<std::int32_t>();
    CHECK(source.eos_id() == eos);
    std::vector<std::string> texts;
    for (auto const& row : json_lines(gunzip(file))) texts.push_back(row["text"]);
    CHECK(texts.size() == stream["documents"].get<std::size_t>());
    std::vector<std::uint8_t> bytes;
    id_list first;
    for (auto& ids : mpt::encode_all(source, texts, 2)) {
      ids.push_back(eos);
      for (auto const id : ids) {
        if (first.size() < 16) first.push_back(id);
        for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::uint8_t>(id >> (8 * i)));
      }
    }
    CHECK(bytes.size() / 4 == stream["ids_with_eos"].get<std::size_t>());
    CHECK(first == stream["first16"].get<id_list>());
    CHECK(sha256::hex(std::move(bytes)) == stream["sha256_int32_le"].get<std::string>());
    ++checked;
  }
  CHECK(checked >= 10);
}

TEST_CASE("encode_all: results are in the order of the texts for every number of threads") {
  auto const source = tokenizer_test::small_tokenizer();
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < 200; ++i) {
    std::string text = "text " + std::to_string(i);
    for (std::size_t j = 0; j < i % 17; ++j) text += tokenizer_test::sentences()[j % 3];
    texts.push_back(text);
  }
  std::vector<std::vector<std::int32_t>> expected;
  for (auto const& text : texts) expected.push_back(source.encode(text));
  for (int threads : {1, 2, 3, 8, 500}) CHECK(mpt::encode_all(source, texts, threads) == expected);
  CHECK(mpt::encode_all(source, {}, 4).empty());
}

TEST_CASE("encode_all: zero threads are an error") {
  auto const source = tokenizer_test::small_tokenizer();
  CHECK(tokenizer_test::contains(
      tokenizer_test::message_of([&] { (void)mpt::encode_all(source, {}, 0); }),
      "at least 1 thread"));
}

}  // namespace encode_all_test
