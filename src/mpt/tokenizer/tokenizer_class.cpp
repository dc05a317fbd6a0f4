#include <mpt/tokenizer/tokenizer_class.hpp>

#include <algorithm>
#include <array>
#include <string>

namespace mpt {
namespace {

constexpr std::string_view end = "<|endoftext|>";
constexpr std::array classes = {
    tokenizer_class{"GPTNeoXTokenizer", end, end, end, "", false},
    tokenizer_class{"GPT2Tokenizer", end, end, end},
    tokenizer_class{"Qwen2Tokenizer", "", end, end, end, std::nullopt, true},
    tokenizer_class{"LlamaTokenizer", "<s>", "</s>", "<unk>", "", true},
    tokenizer_class{"CodeLlamaTokenizer", "<s>", "</s>", "<unk>", "", true},
    tokenizer_class{"GemmaTokenizer", "<bos>", "<eos>", "<unk>", "<pad>", true},
};

}  // namespace

std::string_view tokenizer_class::token(std::string_view role) const {
  if (role == "bos_token") return bos;
  if (role == "eos_token") return eos;
  if (role == "unk_token") return unk;
  return role == "pad_token" ? pad : std::string_view();
}

tokenizer_class const& gpt_neox_class() { return classes.front(); }

tokenizer_class const* find_tokenizer_class(nlohmann::json const& config) {
  auto const found = config.find("tokenizer_class");
  if (found == config.end() || !found->is_string()) return nullptr;
  std::string_view name = found->get_ref<std::string const&>();
  if (name.ends_with("Fast")) name.remove_suffix(4);
  auto const* const match = std::ranges::find(classes, name, &tokenizer_class::name);
  return match == classes.end() ? nullptr : match;
}

}  // namespace mpt
