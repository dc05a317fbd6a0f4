// A tokenizer of 290 tokens, trained in memory on three sentences, for tests that need no data
// files.
//
// Its merges, and the ids below, were made by Hugging Face's tokenizers 0.21.4 from the same
// sentences (BpeTrainer: vocab_size 290, min_frequency 2, initial alphabet of all bytes).
#pragma once

#include <mpt/tokenizer/train_tokenizer.hpp>
#include <nlohmann/json.hpp>
#include <parallel/support/files.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tokenizer_test {

/// The sentences on which the small tokenizer is trained.
inline std::vector<std::string> const& sentences() {
  static std::vector<std::string> const texts = {
      "The quick brown fox jumps over the lazy dog. The dog doesn't mind; the fox does.\n",
      "In the beginning there was the word, and the word was with the weaver.  She'd woven 1234 "
      "threads, then 1235 more.\n",
      "Na\xC3\xAFve caf\xC3\xA9s serve cr\xC3\xA8me br\xC3\xBBl\xC3\xA9"
      "e; the caf\xC3\xA9 isn't "
      "na\xC3\xAFve.\n\n    indented    text\n"};
  return texts;
}

inline mpt::tokenizer small_tokenizer() {
  return mpt::train_tokenizer(sentences(), {.vocab_size = 290});
}

/// The small tokenizer after `change(json&)` of its tokenizer.json.
template <class Change>
mpt::tokenizer changed_tokenizer(Change&& change) {
  auto json = nlohmann::json::parse(small_tokenizer().files().json);
  change(json);
  return mpt::tokenizer({.json = json.dump(), .config = {}, .source = {}});
}

/// An entry of added_tokens.
inline nlohmann::json added(int id, std::string const& content, bool normalized) {
  return {{"id", id},        {"content", content},       {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", normalized}, {"special", false}};
}

/// The message with which `action` throws parallel::error, or "no error".
template <class Action>
std::string message_of(Action&& action) {
  try {
    std::forward<Action>(action)();
  } catch (parallel::error const& problem) {
    return problem.what();
  }
  return "no error";
}

using test::contains;

/// The merges that the reference learns from the sentences.
inline constexpr char const* reference_merges =
    R"json(["h e", "\u0120 t", "\u0120t he", "\u0120 w", "v e", "d o", "i n", 
"\u0120 \u0120", "\u0120 do", "o r", "\u00c3 \u00a9", "\u0120 b", 
"\u0120 c", "' t", "1 2", "T he", "a f", "a s", "a \u00c3", "e a", "e s", 
"f o", "o ve", "r \u00c3", "\u00af ve", "\u0120 m", "\u0120 12", 
"\u0120 fo", "\u0120w or", "\u0120w as", "in d", "\u0120\u0120 \u0120", 
"\u0120do g"])json";

/// The reference's ids for variants of the small tokenizer (see tokenizer_test.cpp).
inline constexpr char const* reference_ids =
    R"json([{"variant":"plain","text":"","ids":[]},
{"variant":"plain","text":"The fox","ids":[272,284,88]},
{"variant":"plain","text":" the  dog\n\n","ids":[259,221,289,199,199]},
{"variant":"plain","text":"<|endoftext|>the<|endoftext|>","ids":[0,84,257,0]},
{"variant":"plain","text":"She'd, she'D; they'll 12345 x\u00b2","ids":[
  51,257,7,68,12,221,83,257,7,36,27,259,89,7,76,76,283,19,20,21,221,88,127,111]},
{"variant":"plain","text":"a \u2003b\u00a0 c\u0085\n","ids":[
  65,221,159,223,226,66,127,255,269,127,228,199]},
{"variant":"plain","text":"\u0639\u0631\u0628\u064a \u4e2d\u6587 \ud83d\ude00!","ids":[
  149,118,149,110,149,102,150,233,221,161,117,256,163,245,230,221,173,254,247,223,1]},
{"variant":"plain","text":"e\u0301 caf\u00e9","ids":[69,137,224,269,273,267]},
{"variant":"plain","text":"tab\t\tend   ","ids":[84,65,66,198,198,69,78,68,288]},
{"variant":"plain","text":"''s '' 's '","ids":[7,7,83,221,7,7,221,7,83,221,7]},
{"variant":"nfc","text":"e\u0301 cafe\u0301","ids":[267,269,273,267]},
{"variant":"nfc","text":"\u1100\u1161\u11a8","ids":[167,109,224]},
{"variant":"nfc","text":"\u1100\u1161\u11a7","ids":[167,109,223,158,229,101]},
{"variant":"nfc","text":"a\u0323\u0307 a\u0307\u0323","ids":[
  158,119,95,137,230,221,158,119,95,137,230]},
{"variant":"nfc","text":"\u212b \u2126","ids":[128,228,221,139,103]},
{"variant":"nfc","text":"a\u0301\u1dfa\u0323","ids":[128,95,158,116,119,137,97]},
{"variant":"prefix","text":"The fox","ids":[221,272,284,88]},
{"variant":"prefix","text":" the","ids":[259]},
{"variant":"prefix","text":"the<|endoftext|>the <|endoftext|> the","ids":[259,0,259,221,0,259]},
{"variant":"prefix","text":"","ids":[]},
{"variant":"whole","text":"the fox jumps over the lazy dog the fox jumps over the lazy dog ","ids":[
  84,257,284,88,221,74,85,77,80,83,221,279,82,259,221,76,65,90,89,289,
  259,284,88,221,74,85,77,80,83,221,279,82,259,221,76,65,90,89,289,221]},
{"variant":"ignore","text":" dog","ids":[289]},
{"variant":"ignore","text":"the weaver","ids":[84,257,260,276,261,82]},
{"variant":"added","text":"a     b","ids":[65,290,291,66]},
{"variant":"added","text":"a <L> b","ids":[65,292,268]},
{"variant":"added","text":"a<R>   <R>  b","ids":[65,293,293,66]},
{"variant":"added","text":"a <L> <R> <L>b","ids":[65,221,294,292,66]},
{"variant":"added","text":"e\u0301x \u00e9x e\u0301y \u00e9y","ids":[
  295,221,295,221,296,221,267,89]},
{"variant":"added","text":"<R>\u3000\u2003   x  <|endoftext|>  ","ids":[293,88,291,0,291]}])json";

}  // namespace tokenizer_test
