// The input is read as tokenizer.json. A tokenizer that is accepted must encode and decode any
// text.
#include <mpt/tokenizer/stream_decoder.hpp>
#include <mpt/tokenizer/text_affixes.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

#include "../support.hpp"
#include "../targets.hpp"

void fuzz::tokenizer(std::string_view input) {
  refused([&] {
    mpt::tokenizer_files files;
    files.json = input;
    mpt::tokenizer const tokenizer(std::move(files));
    static_cast<void>(tokenizer.eos_id());
    refused([&] { static_cast<void>(mpt::read_text_affixes(tokenizer)); });
    constexpr std::string_view text =
        " Hello  world's 42\n\t<|endoftext|> caf\xc3\xa9 e\xcc\x81\xff";
    auto const ids = tokenizer.encode(text);
    for (auto const id : ids)
      ensure(tokenizer.token_of(id).has_value(), "every id of a text is a token");
    auto const decoded = tokenizer.decode(ids, mpt::special_tokens::skip);
    mpt::stream_decoder decoder(tokenizer, mpt::special_tokens::skip);
    std::string streamed;
    for (auto const id : ids) streamed += decoder.push(id);
    ensure((streamed += decoder.finish()) == decoded, "ids decoded one by one give the same text");
    // The input is also encoded as text, which may be hostile to the split into words.
    static_cast<void>(tokenizer.encode(input.substr(0, 4096)));
  });
}
