#include <mpt/callbacks/sample_prompts.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <system_error>

#include <mpt/generate/generate.hpp>
#include <mpt/tokenizer/tokenizer.hpp>

namespace mpt {

sample_prompts read_sample_prompts(model_config const& model, data_config const& data,
                                   callbacks_config const& callbacks) {
  auto const& location = data.tokenizer.name;
  std::error_code unreadable;  // an unreadable path counts as absent
  require(std::filesystem::exists(location, unreadable),
          "callbacks.generate_callback needs the tokenizer, but tokenizer.name ", location,
          " is no folder or file here");
  auto const words = std::make_shared<tokenizer const>(tokenizer::load(location));
  require(words->size() <= model.vocab_size, "tokenizer.name ", location, ": has ", words->size(),
          " tokens, the model only ", model.vocab_size);
  sample_prompts out{.ids = {},
                     .end_tokens = {},
                     .tokens = words->size(),
                     .decode = [words](std::span<std::int32_t const> ids) {
                       return words->decode(ids, special_tokens::skip);
                     }};
  if (auto const end = words->eos_id()) out.end_tokens.push_back(*end);
  for (auto const& prompt : callbacks.generate.value().prompts) {
    auto const prefix = concat("callbacks.generate_callback.prompts.", out.ids.size(), ": ");
    out.ids.push_back(words->encode(prompt));
    check_prompt(out.ids.back().size(), model.max_seq_len, prefix);
  }
  return out;
}

}  // namespace mpt
