// GPT-2 and GPT-NeoX-20B against the reference tokenizers: (text, ids) pairs, and whole corpora by
// count, first ids and SHA-256 over the ids (the corpora need the sample data).
#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mpt/data/hash.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <mpt/tokenizer/tokenizer_files.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <support/data.hpp>
#include <tuple>
#include <vector>

namespace tokenizer_corpora_test {

using id_list = std::vector<std::int32_t>;

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

TEST_CASE("tokenizer: GPT-2 and GPT-NeoX-20B give the ids of published vectors") {
  auto const data = test::data_folder();
  if (data.empty()) return;
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

TEST_CASE("tokenizer: GPT-2 and GPT-NeoX-20B give the reference's ids of whole corpora") {
  auto const data = test::data_folder();
  if (data.empty()) return;
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
    std::string bytes;
    id_list first, ids;
    mpt::word_cache cache;
    for (auto const& text : texts) {
      ids.clear();
      source.encode(text, ids, cache);
      ids.push_back(eos);
      for (auto const id : ids) {
        if (first.size() < 16) first.push_back(id);
        for (int i = 0; i < 4; ++i) bytes += static_cast<char>(id >> (8 * i));
      }
    }
    CHECK(bytes.size() / 4 == stream["ids_with_eos"].get<std::size_t>());
    CHECK(first == stream["first16"].get<id_list>());
    CHECK(mpt::data::hash_of("sha256", bytes) == stream["sha256_int32_le"].get<std::string>());
    ++checked;
  }
  CHECK(checked >= 10);
}

}  // namespace tokenizer_corpora_test
