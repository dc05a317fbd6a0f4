// Encodes the documents of a JSON-lines file in one thread; see follow.hpp for the protocol.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/data/document_reader.hpp>
#include <mpt/data/hash.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

#include <cli/app.hpp>
#include "parts/follow.hpp"

namespace {

void run(std::filesystem::path const& folder, std::filesystem::path const& file) {
  auto const tokenizer = mpt::tokenizer::load(folder);
  std::vector<std::string> texts;
  std::size_t bytes = 0;
  mpt::data::document_reader reader(file);
  for (std::string row; reader.next(row);) {
    texts.push_back(mpt::data::text_of_row(row, reader.name(), reader.line()));
    bytes += texts.back().size();
  }
  std::vector<std::int32_t> ids;
  auto const encode = [&] {
    mpt::word_cache cache(std::size_t{1} << 16);  // the size that the workers of prepare use
    ids.clear();
    for (auto const& text : texts) tokenizer.encode(text, ids, cache);
  };
  encode();
  std::string_view const raw(reinterpret_cast<char const*>(ids.data()), ids.size() * sizeof ids[0]);
  bench::follow({{"bytes", bytes},
                 {"documents", texts.size()},
                 {"ids", ids.size()},
                 {"digest", mpt::data::hash_of("sha256", raw)}},
                encode);
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path folder;
  std::filesystem::path file;
  CLI::App app{"Processor time of encoding a JSON-lines file, once a line of standard input"};
  app.add_option("tokenizer", folder, "tokenizer.json, or its folder")->required();
  app.add_option("file", file, "documents, {\"text\": ...} a line")->required();
  return apps::run(app, argc, argv, [&] { run(folder, file); });
}
