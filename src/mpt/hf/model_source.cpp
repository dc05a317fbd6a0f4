#include <mpt/hf/model_source.hpp>

#include <set>
#include <system_error>
#include <utility>

#include <mpt/config/model/hf.hpp>
#include <mpt/config/model/token_ids.hpp>
#include <mpt/hf/generation_defaults.hpp>
#include <mpt/hf/is_model.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/hf/tensor_checksums.hpp>
#include <mpt/tokenizer/tokenizer_files.hpp>
#include <parallel/checkpoint/checkpoints.hpp>

namespace mpt {

model_source::model_source(std::filesystem::path const& path, std::filesystem::path const& adapter,
                           model_config const* known_model)
    : path_(path) {
  if (!adapter.empty()) {
    require(is_adapter_folder(adapter), adapter.string(), ": holds no ", adapter_config_name,
            "; expected an adapter in PEFT's form");
    adapter_.emplace(adapter);
  } else if (is_adapter_folder(path)) {
    adapter_.emplace(path);
    path_ = adapter_->base();
  }
  open(known_model);
  family_ = find_family(config_.family);
  if (adapter_) {
    require(!config_.lora, path_.string(),
            ": has its own adapters; merge them first (convert --merge), or give no other");
    require_same_weights(adapter_->adapted(), path_, adapter_->tensors().name());
    auto separated = config_;
    separate_projections(separated);
    match_projections(separated);
    config_.lora = adapter_->config(config_);
  }
  if (family_ != nullptr && (imported_ || adapter_)) find_layout();
  if (known_model == nullptr || !imported_) return;
  auto const json = imported_->config();
  if (auto const stored = json.find("vocab_size"); stored != json.end() && stored->is_number())
    grow_tables(stored->get<index>());
}

void model_source::grow_tables(index vocabulary) {
  if (vocabulary >= config_.vocab_size) return;
  for (std::string const parameter : {"transformer.wte.weight", "lm_head.weight"}) {
    auto const tensor = family_ != nullptr
                            ? name_in_folder(stored_names_of(*family_, parameter)->names.front())
                            : stored_name(parameter);
    auto const& tensors = imported_->tensors();
    if (!tensors.contains(tensor) || tensors.shape_of(tensor).size() != 2) continue;
    auto const& extents = tensors.shape_of(tensor);
    if (extents.front() != vocabulary) continue;
    auto const width = static_cast<std::size_t>(extents.back());
    std::vector<double> sums(width);
    std::vector<float> row(width);
    for (index i = 0; i < vocabulary; ++i) {
      imported_->read(tensor, i * extents.back(), std::span(row));
      for (std::size_t k = 0; k < width; ++k) sums[k] += static_cast<double>(row[k]);
    }
    auto& table = grown_tables_[tensor];
    table.stored_extents = extents;
    table.extents = {config_.vocab_size, extents.back()};
    for (double const sum : sums)
      table.mean_row.push_back(static_cast<float>(sum / static_cast<double>(vocabulary)));
  }
}

std::vector<hf::named_shape> model_source::stored_shapes(
    std::vector<hf::named_shape> tensors) const {
  for (auto& tensor : tensors)
    if (auto const found = grown_tables_.find(tensor.name); found != grown_tables_.end())
      tensor.extents = found->second.stored_extents;
  return tensors;
}

void model_source::match_projections(model_config const& model) {
  if (family_ == nullptr || config_.attn.fused_qkv == model.attn.fused_qkv) return;
  if (checkpoint_ && !config_.attn.fused_qkv) return;
  config_.attn.fused_qkv = model.attn.fused_qkv;
  if (checkpoint_)
    split_projections();
  else
    find_layout();
}

void model_source::split_projections() {
  constexpr std::string_view fused = "Wqkv";
  std::map<std::string, index> next;  // element of each tensor of the checkpoint
  for (auto const& [name, extents] : hf::shapes_of(config_)) {
    constexpr std::string_view layer = ".attn.W";
    auto const position = name.find(layer);
    if (position == std::string::npos) continue;  // q, k and v follow each other in shapes_of
    auto const letter = position + layer.size() - 1;
    auto const end = name.find('.', letter);
    auto const tensor = name.substr(0, letter) + std::string(fused) + name.substr(end);
    auto& begin = next[tensor];
    projections_[name] = {tensor, begin, extents};
    index size = 1;
    for (index const extent : extents) size *= extent;
    begin += size;
  }
  for (auto const& [tensor, size] : next)
    require(checkpoint_->at(tensor).size() == size, path_.string(), ": ", tensor,
            " has another shape than its configuration says");
}

model_source::tensor_rows model_source::stored_rows(std::string const& name) const {
  auto const found = projections_.find(name);
  return found == projections_.end() ? tensor_rows{name}
                                     : tensor_rows{found->second.tensor, found->second.begin};
}

void model_source::find_layout() {
  layout_.emplace(*family_, config_, hf::shapes_of(config_));
  if (!imported_) return;
  auto const& first = layout_->tensors().front().name;
  auto const& found = imported_->tensors();
  lacks_prefix_ = first.starts_with(family_->base_prefix) && !found.contains(first) &&
                  found.contains(first.substr(family_->base_prefix.size()));
}

std::string model_source::name_in_folder(std::string const& tensor) const {
  return lacks_prefix_ && tensor.starts_with(family_->base_prefix)
             ? tensor.substr(family_->base_prefix.size())
             : tensor;
}

bool model_source::is_in_family_tensors(std::string const& name) const {
  return layout_ && (in_adapter(name) || imported_);
}

std::vector<index> const& model_source::shape_of(std::string const& name) const {
  if (is_in_family_tensors(name)) return layout_->shape_of(name);
  if (in_adapter(name)) return adapter_->shape_of(name);
  if (auto const found = projections_.find(name); found != projections_.end())
    return found->second.extents;
  if (auto const found = grown_tables_.find(stored_name(name)); found != grown_tables_.end())
    return found->second.extents;
  return checkpoint_ ? checkpoint_->at(name).extents
                     : imported_->tensors().shape_of(stored_name(name));
}

void model_source::require_family_tensors(std::span<hf::named_shape const> expected) const {
  for (auto const& [name, extents] : expected)
    require(shape_of(name) == extents, path_.string(), ": ", name,
            " has another shape than its configuration says");
  auto const tensors = layout_->tensors();
  if (adapter_) adapter_->require_tensors(hf::adapters_of(tensors));
  if (!imported_) return;
  auto stored = hf::without_adapters(tensors);
  for (auto& tensor : stored) tensor.name = name_in_folder(tensor.name);
  std::set<std::string> ignored;
  for (auto const& name : imported_->tensors().names())
    for (auto const buffer : family_->buffers)
      if (name.ends_with(buffer)) ignored.insert(name);
  auto const copy_of_head = stored_names_of(*family_, "lm_head.weight")->names.front();
  if (config_.tie_word_embeddings) ignored.insert(copy_of_head);
  imported_->require_tensors(stored_shapes(stored), ignored);
  if (config_.tie_word_embeddings) imported_->require_same(stored.front().name, copy_of_head);
}

void model_source::require_tensors(std::span<hf::named_shape const> expected) const {
  if (layout_) return require_family_tensors(expected);
  std::vector<hf::named_shape> base;
  if (adapter_) {
    adapter_->require_tensors(hf::adapters_of(expected));
    base = hf::without_adapters(expected);
    expected = base;
  }
  if (checkpoint_) {
    for (auto const& [name, extents] : expected)
      require(shape_of(name) == extents, path_.string(), ": ", name,
              " has another shape than its configuration says");
    return;
  }
  std::vector<hf::named_shape> tensors(expected.begin(), expected.end());
  for (auto& tensor : tensors) tensor.name = stored_name(tensor.name);
  tensors = stored_shapes(std::move(tensors));
  if (!config_.tie_word_embeddings) return imported_->require_tensors(tensors);
  imported_->require_tensors(tensors, {"lm_head.weight"});
  imported_->require_same("transformer.wte.weight", "lm_head.weight");
}

void model_source::open_hugging_face(model_config const* known_model) {
  imported_.emplace(path_);
  bool const is_file = hf::is_torch_file(path_);
  auto const file = is_file ? path_.string() : (path_ / "config.json").string();
  auto const hf = known_model != nullptr ? with_stored_form(*known_model, imported_->config(), file)
                                         : from_hf_json(imported_->config(), file);
  config_ = hf.model;
  config_.lora.reset();
  dtype_ = hf.dtype;
  end_tokens_ = hf.end_tokens;
  notes_ = hf.notes;
  if (!is_file) read_generation_config();
  has_fused_names_ =
      imported_->tensors().contains(hf::fused_name("transformer.blocks.0.norm_1.weight"));
  if (std::filesystem::exists(path_ / "tokenizer.json"))
    tokenizer_ = path_.string();
  else if (auto const advice = advice_to_make_tokenizer_json(path_); !advice.empty())
    notes_.push_back(concat(path_.string(), ": has no tokenizer.json; ", advice));
}

void model_source::open(model_config const* known_model) {
  if (hf::is_model(path_)) return open_hugging_face(known_model);
  if (!std::filesystem::exists(path_ / parallel::checkpoint::manifest_name)) {
    std::error_code unreadable;  // an unreadable file counts as absent
    require(!std::filesystem::is_regular_file(path_, unreadable), path_.string(),
            ": is no model; give a checkpoint of Composer (.pt), or the folder of another with all "
            "its files");
    require(!std::filesystem::exists(path_ / ".metadata", unreadable), path_.string(),
            ": is a sharded checkpoint of Composer (__0_0.distcp, ...), which is not read; make "
            "one file of it with PyTorch: python -m "
            "torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE.pt");
    auto const newest = parallel::checkpoint::latest(path_);
    require(newest.folder.has_value(), path_.string(),
            ": is neither a checkpoint, nor a folder of checkpoints, nor a Hugging Face folder "
            "with config.json",
            newest.note.empty() ? "" : "; ", newest.note);
    path_ = *newest.folder;
    if (!newest.note.empty()) notes_.push_back(newest.note);
  }
  checkpoint_.emplace(path_);
  auto const& state = checkpoint_->state();
  require(state.contains("model") && state.at("model").is_object(), path_.string(),
          ": its state does not say which model it holds; expected a checkpoint saved by pretrain");
  auto const hf = from_hf_json(state.at("model"), path_.string());
  config_ = hf.model;
  dtype_ = hf.dtype;
  if (state.contains("peft_config")) read_adapters(state);
  if (auto const name = state.find("tokenizer"); name != state.end() && name->is_string()) {
    std::error_code unreadable;  // an unreadable file counts as absent
    auto const& folder = name->get_ref<std::string const&>();
    if (std::filesystem::exists(folder, unreadable)) tokenizer_ = folder;
  }
}

input_facts model_source::facts(checksum_extent extent) const {
  auto out = checkpoint_ ? hf::checkpoint_facts(*checkpoint_)
                         : hf::weight_facts("the weights", imported_->tensors(), extent);
  if (adapter_) {
    auto const adapter = hf::weight_facts("the adapter", adapter_->tensors(), extent);
    out.insert(out.end(), adapter.begin(), adapter.end());
  }
  return out;
}

void model_source::read_generation_config() {
  if (auto ends = read_generation_ends(path_)) end_tokens_ = *std::move(ends);
}

void model_source::read_adapters(nlohmann::json const& state) {
  auto const& peft_config = state.at("peft_config");
  config_.lora = from_peft_json(peft_config, config_, path_.string());
  base_ = hf::adapted_model_of(state.value("adapted_model", nlohmann::json()),
                               adapted_name(peft_config, path_.string()));
  try {
    require_same_weights(base_, base_.folder, path_.string());
  } catch (parallel::error const& problem) {
    notes_.push_back(
        concat(problem.what(), "; the checkpoint has its own copy of them, which is used"));
  }
}

bool model_source::in_adapter(std::string const& name) const {
  return adapter_ && is_adapter(name);
}

std::string model_source::stored_name(std::string const& name) const {
  return has_fused_names_ ? hf::fused_name(name) : name;
}

}  // namespace mpt
