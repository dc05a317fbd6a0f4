// Encodes and decodes for check_tokenizers.py, which compares the results with Hugging Face's.
//
//   tokenizer_ids TOKENIZER < REQUESTS
//
// A request is a line of JSON: a text, whose ids are printed as a list, or a list of ids, whose
// text is printed twice, with and without special tokens: ["...", "..."].
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <mpt/tokenizer/stream_decoder.hpp>
#include <mpt/tokenizer/text_affixes.hpp>
#include <mpt/tokenizer/tokenizer.hpp>
#include <nlohmann/json.hpp>

namespace {

/// The text of ids; throws if decoding them one by one gives another.
std::string decode(mpt::tokenizer const& tokenizer, std::vector<std::int32_t> const& ids,
                   mpt::special_tokens special) {
  mpt::stream_decoder decoder(tokenizer, special);
  std::string streamed;
  for (auto const id : ids) streamed += decoder.push(id);
  streamed += decoder.finish();
  auto text = tokenizer.decode(ids, special);
  parallel::require(text == streamed, "streamed and whole text differ: \"", streamed, "\"");
  return text;
}

}  // namespace

int main(int argc, char** argv) try {
  parallel::require(argc == 2, "usage: tokenizer_ids TOKENIZER < REQUESTS");
  auto const tokenizer = mpt::tokenizer::load(argv[1]);
  auto const affixes = mpt::read_text_affixes(tokenizer);
  std::cout << nlohmann::json({affixes.prefix, affixes.suffix}).dump() << '\n';
  mpt::word_cache cache;
  for (std::string line; std::getline(std::cin, line);) {
    auto const request = nlohmann::json::parse(line);
    nlohmann::json answer;
    if (request.is_string()) {
      std::vector<std::int32_t> ids;
      tokenizer.encode(request.get_ref<std::string const&>(), ids, cache);
      answer = ids;
    } else {
      auto const ids = request.get<std::vector<std::int32_t>>();
      for (auto const special : {mpt::special_tokens::keep, mpt::special_tokens::skip})
        answer.push_back(decode(tokenizer, ids, special));
    }
    std::cout << answer.dump() << '\n';
  }
  return 0;
} catch (std::exception const& problem) {
  std::cerr << "tokenizer_ids: " << problem.what() << '\n';
  return 1;
}
