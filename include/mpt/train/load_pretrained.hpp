// Beginning a run from the weights of a Hugging Face folder, and its adapters from PEFT's or from
// initial values: each rank reads what it holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/hf.hpp>
#include <mpt/config/read_lora.hpp>
#include <mpt/config/train.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/hf/shapes.hpp>
#include <mpt/model/model.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/checkpoint/stepper.hpp>

namespace mpt {

/// Whether `folder` is a model in Hugging Face's form, or a checkpoint file of Composer's.
[[nodiscard]] inline bool is_hf_folder(std::filesystem::path const& folder) {
  return hf::hf_import::is_model(folder);
}

namespace detail {

/// Refuses weights of another model than `model`, theirs as `where` says of them.
inline void require_same_model(model_config const& of_weights, std::string_view where,
                               model_config const& model, std::string_view advice,
                               std::string_view except = {}) {
  if (auto const found = difference_of(of_weights, model, except))
    parallel::fail(where, " says ", found->name, " = ", found->first, ", this run's model ",
                   found->second, "; make them equal", advice);
}

/// As checkpoint::load_from reads it. Adapters that the source does not have are new.
class source_tensors {
 public:
  struct entry {
    std::vector<index> const& extents;
  };

  source_tensors(model_source const& source, model_config const& model, std::uint64_t seed)
      : source_(&source), seed_(seed) {
    if (!model.lora || source.config().lora) return;
    mpt::model<float> net(model);
    net.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
      layer.visit_parameters([&](parameter_base<float>& p) {
        if (is_adapter(p.name)) new_.emplace(p.name, p);
      });
    });
  }

  [[nodiscard]] entry at(std::string const& name) const {
    auto const found = new_.find(name);
    return {found == new_.end() ? source_->shape_of(name) : found->second.extents};
  }

  template <class T>
  void read_block(std::string const& name, index begin, index run, std::span<T> out) const {
    auto const found = new_.find(name);
    if (found == new_.end()) return source_->read_block(name, begin, run, out);
    auto const& p = found->second;
    auto const piece = run == 0 ? out.size() : static_cast<std::size_t>(run);
    for (; !out.empty(); out = out.subspan(piece), begin += p.row_size())
      parallel::initial_values(out.first(piece), name, p.initial, seed_, begin);
  }

 private:
  model_source const* source_;
  std::uint64_t seed_;
  std::map<std::string, parameter_base<float>> new_;
};

/// Refuses to lose adapters, or to take them for others.
inline void require_same_adapters(model_source const& source, model_config const& model) {
  auto const& theirs = source.config().lora;
  if (!theirs) return;
  require(model.lora.has_value(), source.path().string(),
          ": has adapters, but this run none; merge them first (convert --merge), or give "
          "model.peft_config");
  auto const found = to_peft_json(*theirs, "");
  auto const ours = to_peft_json(*model.lora, "");
  for (auto const& [key, value] : found.items())
    require(key == "lora_dropout" || value == ours.at(key), source.path().string(),
            ": its adapters have ", key, " = ", value.dump(), ", this run's ", ours.at(key).dump(),
            "; make model.peft_config the same");
}

}  // namespace detail

/// Collective: fills all ranks' memory with the weights in `folder`, and adapters, where the run
/// has some, from `config.adapter`, from there, or new; the optimizer's states stay zero.
template <class Stepper, class Exchange>
void load_pretrained(Stepper& step, Exchange& exchanges, std::filesystem::path const& folder,
                     train_config const& config) {
  auto const& model = config.model;
  model_source const source(folder, config.adapter);
  bool const overridden = folder == config.pretrained;  // it may differ from its config.json
  if (!overridden)
    detail::require_same_model(source.config(), source.path().string() + ": its config.json", model,
                               ", or take the model from there by model.name=hf_causal_lm and "
                               "model.pretrained_model_name_or_path");
  detail::require_same_adapters(source, model);
  auto const shapes = hf::shapes_of(model);
  source.require_tensors(source.config().lora ? shapes : hf::without_adapters(shapes));
  parallel::checkpoint::load_from(step, exchanges,
                                  detail::source_tensors(source, model, config.seed),
                                  folder.string(), parallel::checkpoint::content::weights);
}

}  // namespace mpt
