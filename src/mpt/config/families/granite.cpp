// Granite 3: Llama's form with factors of embeddings, of the results of attention and feed-forward
// layer, of scores and of logits.
#include <cmath>

#include <mpt/config/model/llama_form.hpp>

namespace mpt::families::granite {
namespace {

/// `logits_scaling`, by which logits are divided.
void describe_logits(family_form& form, model_config& model) {
  double const factor = model.logit_scale.value_or(1);
  double divisor = 1 / factor;
  while (form.writes() && 1 / divisor > factor) divisor = std::nextafter(divisor, HUGE_VAL);
  while (form.writes() && 1 / divisor < factor) divisor = std::nextafter(divisor, 0);
  form.field("logits_scaling", divisor, 1);
  form.require(divisor > 0, "logits_scaling", "expected a number above 0, found ", divisor);
  if (!form.writes() && divisor != 1) model.logit_scale = 1 / divisor;
}

void describe(family_form& form, model_config& model) {
  describe_llama(form, model);
  form.attention_bias(model, false);
  form.require_off("mlp_bias", "biases in the feed-forward layers are not supported");
  form.field("embedding_multiplier", model.embedding_scale, 1);
  form.field("residual_multiplier", model.residual_scale, 1);
  double const usual = 1 / std::sqrt(static_cast<double>(head_dim(model)));
  double scale = model.attn.softmax_scale.value_or(usual);
  form.field("attention_multiplier", scale, 1);
  if (!form.writes()) model.attn.softmax_scale = scale;
  describe_logits(form, model);
}

}  // namespace

extern constinit model_family const table = llama_family("granite", "GraniteForCausalLM", &describe,
                                                         {.architecture = "granite",
                                                          .attention_biases = gguf_biases::optional,
                                                          .interleaves_rotation = true,
                                                          .has_frequency_factors = true,
                                                          .remove_held = [](model_config& model) {
                                                            model.embedding_scale = 1;
                                                            model.residual_scale = 1;
                                                            model.attn.softmax_scale.reset();
                                                            model.logit_scale.reset();
                                                          }});

}  // namespace mpt::families::granite
