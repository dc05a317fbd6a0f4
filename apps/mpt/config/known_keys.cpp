#include <mpt/config/known_keys.hpp>

#include <algorithm>
#include <string>
#include <string_view>

#include <mpt/config/document.hpp>
#include <mpt/config/read_train.hpp>

namespace mpt {

std::vector<known_key> known_keys() {
  constexpr std::string_view smallest = R"(
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
  auto known = read_train_config(make_document(smallest, "smallest")).report.known;
  std::vector<std::string> const finetuning{
      "train_loader={name: finetuning, dataset: {local: null, hf_name: d, preprocessing_fn: "
      "{prompt: p, response: r}}}"};
  for (auto const& key :
       read_train_config(make_document(smallest, "smallest", finetuning)).report.known) {
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

}  // namespace mpt
