// The keys of training configurations and their roles, collected by reading some of them.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <mpt/config/read_train.hpp>
#include <mpt/yaml/document.hpp>

namespace test {

/// Every key that a configuration for text, for finetuning or of a model with experts may have,
/// sorted by name. A key that has an effect in one of them counts as effective.
[[nodiscard]] inline std::vector<mpt::known_key> known_keys() {
  using namespace mpt;
  constexpr std::string_view minimal_yaml = R"(
max_seq_len: 2
max_duration: 1ba
global_train_batch_size: 1
model: {}
tokenizer: {name: t}
optimizer: {name: decoupled_adamw}
scheduler: {name: linear_decay_with_warmup, t_warmup: 0ba}
train_loader: {dataset: {local: d}}
eval_loader: {dataset: {local: d}}
)";
  auto known = read_train_config(make_document(minimal_yaml, "minimal")).output.report.known;
  std::vector<std::string> const finetuning{
      "train_loader={name: finetuning, dataset: {local: null, hf_name: d, preprocessing_fn: "
      "{prompt: p, response: r}}}"};
  std::vector<std::string> const experts{
      "model.no_bias=true",
      "model.ffn_config={ffn_type: mb_moe, moe_num_experts: 2, shared_expert: true}"};
  for (auto const& overrides : {finetuning, experts})
    for (auto const& key :
         read_train_config(make_document(minimal_yaml, "minimal", overrides)).output.report.known) {
      auto const entry = std::ranges::find(known, key.name, &known_key::name);
      if (entry == known.end())
        known.push_back(key);
      else if (key.role == key_role::effective)
        entry->role = key.role;
    }
  std::sort(known.begin(), known.end(),
            [](known_key const& a, known_key const& b) { return a.name < b.name; });
  return known;
}

}  // namespace test
