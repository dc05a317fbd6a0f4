// The golden models: tests/golden/mpt/FORM.safetensors, by tests/reference/make_golden.py, and
// those of other families in tests/golden/families, by make_family_golden.py.
#pragma once

namespace test {

inline constexpr char const* golden_forms[] = {"a1",           "a2",           "a3",
                                               "a4",           "a5",           "c_rmsnorm",
                                               "c_gelu_tanh",  "c_silu",       "c_quick_gelu",
                                               "c_relu",       "c_glu",        "c_hidden",
                                               "c_ratio",      "c_untied",     "c_softcap",
                                               "c_fused",      "c_modern",     "c_mixed",
                                               "d_grouped",    "d_multiquery", "d_by_head",
                                               "d_capped",     "d_packed",     "d_linear",
                                               "d_llama3",     "d_layers",     "d_reuse",
                                               "d_reuse_bias", "d_xpos",       "d_all",
                                               "b1",           "b2",           "b3"};

inline constexpr char const* golden_families[] = {
    "families/llama_grouped",        "families/llama_wide_heads",
    "families/llama_biases",         "families/mistral_window",
    "families/mistral_narrow_heads", "families/mistral_theta",
    "families/qwen2_tied",           "families/qwen2_yarn",
    "families/qwen2_window",         "families/qwen3_tied",
    "families/qwen3_biases",         "families/qwen3_plain",
    "families/gpt_neox_parallel",    "families/gpt_neox_sequential",
    "families/gpt_neox_few_biases",  "families/gpt2_plain",
    "families/gpt2_untied",          "families/gpt2_gelu",
    "families/starcoder2_window",    "families/starcoder2_few_biases",
    "families/stablelm_biases",      "families/stablelm_plain",
    "families/olmo2_grouped",        "families/olmo2_biases",
    "families/phi3_short",           "families/phi3_long",
    "families/phi3_plain",           "families/smollm3_default",
    "families/smollm3_window",       "families/granite_factors",
    "families/granite_biases",       "families/gemma_plain",
    "families/gemma2_windows",       "families/gemma2_uncapped",
    "families/gemma3_windows",       "families/gemma3_capped",
    "families/glm4_biases",          "families/glm4_plain",
    "families/qwen2_mixed"};

}  // namespace test
