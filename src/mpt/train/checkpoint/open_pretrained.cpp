#include <mpt/train/checkpoint/open_pretrained.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/read_lora.hpp>
#include <mpt/hf/is_model.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/train/checkpoint/run_checkpoint.hpp>
#include <mpt/train/checkpoint/same_model.hpp>
#include <mpt/vocabulary.hpp>

namespace mpt {
namespace {

/// Pretrained weights; adapters that the source does not have get initial values.
class pretrained_weights final : public weight_source {
 public:
  /// `source` holds the weights of the model that the run trains.
  pretrained_weights(model_source source, model_config const& model, std::uint64_t seed)
      : source_(std::move(source)), seed_(seed) {
    if (!model.lora || source_.config().lora) return;
    mpt::model<float> net(model);
    net.visit_units([&](std::string const&, auto& layer, auto const&, auto const&) {
      layer.visit_parameters([&](parameter_base<float>& p) {
        if (is_adapter(p.name)) new_adapters_.emplace(p.name, p);
      });
    });
  }

  [[nodiscard]] entry at(std::string const& name) const override {
    auto const found = new_adapters_.find(name);
    return {found == new_adapters_.end() ? source_.shape_of(name) : found->second.extents};
  }

  void read_block(std::string const& name, index begin, index run,
                  std::span<float> out) const override {
    read(name, begin, run, out);
  }
  void read_block(std::string const& name, index begin, index run,
                  std::span<double> out) const override {
    read(name, begin, run, out);
  }
  void read_block(std::string const& name, index begin, index run,
                  std::span<bf16> out) const override {
    read(name, begin, run, out);
  }

 private:
  template <class T>
  void read(std::string const& name, index begin, index run, std::span<T> out) const {
    auto const found = new_adapters_.find(name);
    if (found == new_adapters_.end()) return source_.read_block(name, begin, run, out);
    auto const& p = found->second;
    auto const piece = run == 0 ? out.size() : static_cast<std::size_t>(run);
    for (; !out.empty(); out = out.subspan(piece), begin += p.row_size())
      parallel::initial_values(out.first(piece), name, p.initial, seed_, begin);
  }

  model_source source_;
  std::uint64_t seed_;
  std::map<std::string, parameter_base<float>> new_adapters_;
};

/// Throws if the source has adapters and the run has none, or adapters with other settings.
void require_same_adapters(model_source const& source, model_config const& model) {
  auto const& source_lora = source.config().lora;
  if (!source_lora) return;
  require(model.lora.has_value(), source.path().string(),
          ": has adapters, but this run has none; merge them first (convert --merge), or give "
          "model.peft_config");
  auto const difference =
      first_difference(to_peft_json(*source_lora, {}, model), to_peft_json(*model.lora, {}, model),
                       [](std::string const& key) { return key != "lora_dropout"; });
  if (difference)
    parallel::fail(source.path().string(), ": its adapters have ", difference->name, " = ",
                   difference->first, ", but this run's adapters have ", difference->second,
                   "; make model.peft_config the same");
}

}  // namespace

std::unique_ptr<weight_source> open_pretrained(model_config const& model,
                                               optimizer_config const& optimizer,
                                               run_config const& run,
                                               checkpoint_config const& checkpoint,
                                               std::filesystem::path const& folder) {
  // The model of checkpoint.pretrained is the run's; the configuration may override its
  // config.json.
  bool const is_model_of_run = folder == checkpoint.pretrained;
  model_source source(folder, checkpoint.adapter, is_model_of_run ? &model : nullptr);
  source.match_projections(model);
  if (!is_model_of_run)
    detail::require_same_model(source.config(), source.path().string() + ": its config.json", model,
                               ", or take the model from there by model.name=hf_causal_lm and "
                               "model.pretrained_model_name_or_path");
  require_same_adapters(source, model);
  auto const shapes = hf::shapes_of(model);
  source.require_tensors(source.config().lora ? shapes : hf::without_adapters(shapes));
  require(
      !model.lora || source.config().lora || optimizer.clip.kind != train::clipping_kind::adaptive,
      "algorithms.gradient_clipping: adaptive clipping compares a gradient with its parameter, and "
      "the new adapters for ",
      folder.string(), " begin at zero, so nothing would be trained; choose norm");
  return std::make_unique<pretrained_weights>(std::move(source), model, run.seed);
}

namespace {

/// The base model of adapters as the folders have it that the run begins from.
[[nodiscard]] hf::adapted_model read_adapter_base(checkpoint_config const& checkpoint) {
  auto const& path = checkpoint.load_path;
  auto const& base = path.empty() ? checkpoint.pretrained : path;
  if (base.empty()) return {};
  if (hf::is_model(base)) return hf::read_adapted_model(base);
  if (!std::filesystem::exists(base)) return {};
  auto recorded = model_source(base).base();
  if (!checkpoint.load_weights_only) require_same_weights(recorded, checkpoint.pretrained, base);
  return recorded;
}

}  // namespace

hf::adapted_model adapter_base_of(model_config const& model, checkpoint_config const& checkpoint) {
  if (!model.lora) return {};
  auto const found = read_adapter_base(checkpoint);
  if (!found.checksums.empty()) return found;
  auto const state = state_of_resumed_run(checkpoint);
  if (!state.contains("peft_config")) return found;
  auto recorded =
      hf::adapted_model_of(state.value("adapted_model", nlohmann::json()),
                           adapted_name(state.at("peft_config"), "the checkpoint to resume"));
  return recorded.checksums.empty() && !found.base.name.empty() ? found : recorded;
}

}  // namespace mpt
