// Beginning a run from the weights of a Hugging Face folder: each rank reads what it holds.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/config/hf.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/hf/shapes.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/checkpoint/stepper.hpp>

namespace mpt {

/// Whether `folder` is a model in Hugging Face's form, or a checkpoint file of Composer's.
[[nodiscard]] inline bool is_hf_folder(std::filesystem::path const& folder) {
  return hf::hf_import::is_model(folder);
}

namespace detail {

/// A model's settings that decide what its weights mean.
[[nodiscard]] inline nlohmann::json meaning_of(model_config const& model) {
  auto json = to_hf_json(model, "float32");
  for (char const* const key :
       {"architectures", "auto_map", "model_type", "torch_dtype", "max_seq_len", "resid_pdrop",
        "emb_pdrop", "embedding_fraction", "init_config", "use_cache"})
    json.erase(key);
  for (char const* const key : {"attn_impl", "attn_pdrop", "attn_uses_sequence_id"})
    json["attn_config"].erase(key);
  return json.flatten();
}

/// Refuses weights whose config.json describes another model than `model`.
inline void require_same_model(model_source const& source, model_config const& model) {
  auto const theirs = meaning_of(source.config());
  auto const ours = meaning_of(model);
  auto const value = [](nlohmann::json const& all, std::string const& key) {
    return all.contains(key) ? all.at(key).dump() : std::string("nothing");
  };
  auto all = ours;
  all.update(theirs);
  for (auto const& [key, unused] : all.items()) {
    auto const one = value(theirs, key);
    auto const other = value(ours, key);
    auto name = key.substr(1);
    for (char& c : name) c = c == '/' ? '.' : c;
    require(one == other, source.path().string(), ": its config.json says ", name, " = ", one,
            ", this run's model ", other,
            "; make them equal, or take the model from there by model.name=hf_causal_lm and "
            "model.pretrained_model_name_or_path");
  }
}

/// As checkpoint::load_from reads it.
class source_tensors {
 public:
  struct entry {
    std::vector<index> const& extents;
  };

  explicit source_tensors(model_source const& source) : source_(&source) {}

  [[nodiscard]] entry at(std::string const& name) const { return {source_->shape_of(name)}; }

  template <class T>
  void read_block(std::string const& name, index begin, index run, std::span<T> out) const {
    source_->read_block(name, begin, run, out);
  }

 private:
  model_source const* source_;
};

}  // namespace detail

/// Fills this rank's memory with the weights in `folder`; the optimizer's states stay zero.
/// `overridden`: the model may differ from the folder's config.json. On every rank.
template <class Stepper>
void load_pretrained(Stepper& step, std::filesystem::path const& folder, model_config const& model,
                     bool overridden) {
  model_source const source(folder);
  if (!overridden) detail::require_same_model(source, model);
  source.require_tensors(hf::shapes_of(model));
  parallel::checkpoint::load_from(step, detail::source_tensors(source), folder.string(),
                                  parallel::checkpoint::content::weights);
}

}  // namespace mpt
