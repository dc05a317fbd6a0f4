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

/// The types of models with a class in transformers 4.57 (TOKENIZER_MAPPING_NAMES).
struct model_types {
  std::string_view class_name;
  std::string_view types;  // between spaces
};

constexpr model_types types_of_models[] = {
    {"GPTNeoXTokenizer",
     "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmo2 olmoe rwkv stablelm xlstm"},
    {"GPT2Tokenizer",
     "blip-2 dbrx emu3 exaone4 flex_olmo gpt2 gpt_bigcode gpt_neo gptj granite granitemoe "
     "granitemoehybrid granitemoeshared instructblip instructblipvideo minimax olmo3 opt "
     "starcoder2"},
    {"Qwen2Tokenizer",
     "colqwen2 internvl qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe qwen2_vl qwen3 "
     "qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe"},
    {"LlamaTokenizer",
     "arcee aria chameleon colpali deepseek_v2 deepseek_v3 deepseek_vl deepseek_vl_hybrid "
     "diffllama ernie4_5 ernie4_5_moe idefics idefics2 idefics3 jamba janus jetmoe llama "
     "llama4 llama4_text llava llava_next llava_next_video llava_onevision ministral "
     "mistral mistral3 mixtral mllama paligemma persimmon phi3 phimoe video_llava vipllava "
     "zamba zamba2"},
    {"CodeLlamaTokenizer", "code_llama"},
    {"GemmaTokenizer",
     "gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 "
     "siglip2 t5gemma"},
    {"PreTrainedTokenizer",
     "bitnet blt csm falcon glm glm4 glm4_moe glm4v glm4v_moe gpt_oss helium kosmos-2.5 "
     "modernbert moonshine moshi nemotron pixtral smollm3 voxtral"},
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

std::string class_of_model(nlohmann::json const& config) {
  auto const text = [&](char const* key) {
    auto const found = config.find(key);
    return found != config.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  if (auto const named = text("tokenizer_class"); !named.empty()) return named;
  auto const type = " " + text("model_type") + " ";
  for (auto const& [name, types] : types_of_models)
    if ((" " + std::string(types) + " ").find(type) != std::string::npos)
      return std::string(name) + "Fast";
  return {};
}

}  // namespace mpt
