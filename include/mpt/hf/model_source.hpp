// model_source: a trained model, wherever it lies: a checkpoint of ours, the folder that holds a
// run's checkpoints (its latest is meant), a Hugging Face folder, or a checkpoint of Composer's;
// with adapters, those of a LoRA run's checkpoint or of a folder in PEFT's form. Tensors are read
// one by one.
#pragma once

#include <cmath>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <mpt/config/hf.hpp>
#include <mpt/config/small_file.hpp>
#include <mpt/config/token_ids.hpp>
#include <mpt/hf/adapter.hpp>
#include <mpt/hf/import.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/device/transfer.hpp>

namespace mpt {

class model_source {
 public:
  /// Opens it and reads its configuration; throws when it is none of these. `adapter`: a folder in
  /// PEFT's form, or none. Where `path` is such a folder itself, the model is the one it names.
  explicit model_source(std::filesystem::path const& path,
                        std::filesystem::path const& adapter = {})
      : path_(path) {
    if (!adapter.empty()) {
      require(is_adapter_folder(adapter), adapter.string(), ": holds no ", adapter_config_name,
              "; expected an adapter in PEFT's form");
      adapter_.emplace(adapter);
    } else if (is_adapter_folder(path)) {
      adapter_.emplace(path);
      path_ = adapter_->base();
    }
    open();
    if (!adapter_) return;
    require(!config_.lora, path_.string(),
            ": has adapters of its own; merge them first (convert --merge), or give no other");
    config_.lora = adapter_->config(config_);
  }

  [[nodiscard]] model_config const& config() const { return config_; }
  /// "float32" or "bfloat16": how it was trained or stored.
  [[nodiscard]] std::string const& dtype() const { return dtype_; }
  /// The checkpoint or folder that was found.
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }
  /// What was not as expected: another checkpoint was taken than the newest. Empty: nothing.
  [[nodiscard]] std::string const& note() const { return note_; }
  /// Where its tokenizer lies; empty when that is not known.
  [[nodiscard]] std::string const& tokenizer() const { return tokenizer_; }

  /// The tokens that its files say end a text, as transformers' generate takes them: eos_token_id
  /// of generation_config.json, or where there is none of config.json. Empty: they name none. Some
  /// may be no tokens of the model.
  [[nodiscard]] std::vector<std::int64_t> const& end_tokens() const { return end_tokens_; }

  /// Of adapters: the folder of the model beside which they were trained; empty when not known.
  [[nodiscard]] std::string const& base() const { return base_; }

  /// Reads elements of a parameter from `begin` on, converted to T. Throws for one that is no
  /// number.
  template <class T>
  void read(std::string const& name, index begin, std::span<T> out) const {
    if (in_adapter(name))
      adapter_->read(name, begin, out);
    else if (checkpoint_)
      checkpoint_->read(name, begin, out);
    else
      foreign_->read(stored(name), begin, out);
    require_finite(name, out);
  }

  /// Reads `run` elements of a row from `begin` on, and the same columns of the rows that follow,
  /// until `out` is full; run 0: one element after another.
  template <class T>
  void read_block(std::string const& name, index begin, index run, std::span<T> out) const {
    if (checkpoint_ && !in_adapter(name)) {
      checkpoint_->read_block(name, begin, run, out);
      return require_finite(name, out);
    }
    if (run == 0) return read(name, begin, out);
    index row = 1;
    for (index const extent : std::span(shape_of(name)).subspan(1)) row *= extent;
    for (std::size_t done = 0; done < out.size();
         done += static_cast<std::size_t>(run), begin += row)
      read(name, begin, out.subspan(done, static_cast<std::size_t>(run)));
  }

  /// The shape of a parameter; throws when it is not there.
  [[nodiscard]] std::vector<index> const& shape_of(std::string const& name) const {
    if (in_adapter(name)) return adapter_->shape_of(name);
    return checkpoint_ ? checkpoint_->at(name).extents : foreign_->tensors().shape_of(stored(name));
  }

  /// Checks that it has tensors of these names and shapes and, if it is another program's, no
  /// others, but for a tied head that was saved besides; one error lists all that differ.
  void require_tensors(std::span<hf::named_shape const> expected) const {
    std::vector<hf::named_shape> base;
    if (adapter_) {
      adapter_->require_tensors(hf::adapters_of(expected));
      base = hf::without_adapters(expected);
      expected = base;
    }
    if (checkpoint_) {
      for (auto const& [name, extents] : expected)
        require(checkpoint_->at(name).extents == extents, path_.string(), ": ", name,
                " has another shape than its configuration says");
      return;
    }
    std::vector<hf::named_shape> names(expected.begin(), expected.end());
    for (auto& tensor : names) tensor.name = stored(tensor.name);
    if (!config_.tie_word_embeddings) return foreign_->require_tensors(names);
    foreign_->require_tensors(names, {"lm_head.weight"});
    foreign_->require_same("transformer.wte.weight", "lm_head.weight");
  }

  /// Fills a model's weights, or this rank's slices of them, which lie on `device`; throws when one
  /// is missing, has another shape or is not of this model.
  template <class Weights, class Device>
  void load(Weights const& weights, Device const& device) const {
    std::vector<hf::named_shape> all;
    weights.for_each([&](auto const& parameter, auto) {
      all.push_back({parameter.name, parameter.tensor_extents()});
    });
    require_tensors(all);
    weights.for_each([&](auto const& parameter, auto values) {
      parallel::write_from_host(device, values, [&](auto here) {
        parameter.for_each_block(
            0, parameter.size(), [&](index first, index count, index global, index run) {
              read_block(
                  parameter.name, global, run,
                  here.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)));
            });
      });
    });
  }

 private:
  /// Opens what lies at path_, without an adapter beside it.
  void open() {
    if (hf::is_model(path_)) {
      foreign_.emplace(path_);
      bool const file = hf::is_torch_file(path_);
      auto const hf = from_hf_json(foreign_->config(),
                                   file ? path_.string() : (path_ / "config.json").string());
      config_ = hf.model;
      dtype_ = hf.dtype;
      end_tokens_ = hf.end_tokens;
      if (!file) take_generation_config();
      fused_ = foreign_->tensors().contains(hf::fused_name("transformer.blocks.0.norm_1.weight"));
      if (std::filesystem::exists(path_ / "tokenizer.json")) tokenizer_ = path_.string();
      return;
    }
    if (!std::filesystem::exists(path_ / parallel::checkpoint::manifest_name)) {
      std::error_code unreadable;  // then it is not there
      require(
          !std::filesystem::is_regular_file(path_, unreadable), path_.string(),
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
      note_ = newest.note;
    }
    checkpoint_.emplace(path_);
    auto const& state = checkpoint_->state();
    require(
        state.contains("model") && state.at("model").is_object(), path_.string(),
        ": its state does not say which model it holds; expected a checkpoint saved by pretrain");
    auto const hf = from_hf_json(state.at("model"), path_.string());
    config_ = hf.model;
    dtype_ = hf.dtype;
    if (auto const lora = state.find("peft_config"); lora != state.end()) take_adapters(*lora);
    if (auto const name = state.find("tokenizer"); name != state.end() && name->is_string()) {
      std::error_code unreadable;  // then it is not there
      auto const& folder = name->get_ref<std::string const&>();
      if (std::filesystem::exists(folder, unreadable)) tokenizer_ = folder;
    }
  }

  /// The end tokens of generation_config.json, where there is one: config.json is not asked then.
  void take_generation_config() {
    auto const file = path_ / "generation_config.json";
    if (!parallel::files::exists(file)) return;
    auto const json = parallel::checkpoint::parse_json(read_small_file(file), file.string());
    require(json.is_object(), file.string(), ": must be a JSON object");
    end_tokens_ = read_token_ids(json, "eos_token_id", file.string());
  }

  /// Of a LoRA run's checkpoint.
  void take_adapters(nlohmann::json const& said) {
    config_.lora = from_peft_json(said, config_, path_.string());
    if (auto const base = said.find("base_model_name_or_path");
        base != said.end() && base->is_string())
      base_ = *base;
  }

  [[nodiscard]] bool in_adapter(std::string const& name) const {
    return adapter_ && is_adapter(name);
  }

  template <class T>
  void require_finite(std::string const& name, std::span<T> values) const {
    bool finite = true;
    for (T const value : values) finite = finite && std::isfinite(static_cast<float>(value));
    require(finite, path_.string(), ": ", name,
            " holds values that are NaN or infinite: the weights are damaged, or the run that made "
            "them went wrong; use an earlier checkpoint");
  }

  /// A parameter's name in the Hugging Face folder.
  [[nodiscard]] std::string stored(std::string const& name) const {
    return fused_ ? hf::fused_name(name) : name;
  }

  std::filesystem::path path_;
  model_config config_;
  std::string dtype_;
  std::string tokenizer_;
  std::string base_;
  std::string note_;
  std::vector<std::int64_t> end_tokens_;
  bool fused_ = false;  // it was written with fuse_norm_attn_norm
  std::optional<parallel::checkpoint::checkpoint_reader> checkpoint_;
  std::optional<hf::hf_import> foreign_;
  std::optional<hf::peft_adapter> adapter_;
};

}  // namespace mpt
