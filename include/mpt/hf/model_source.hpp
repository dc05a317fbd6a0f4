// model_source: a trained model, wherever it lies: a checkpoint of ours, the folder that holds a
// run's checkpoints (its latest is meant), a Hugging Face folder, or a checkpoint of Composer's;
// with adapters, those of a LoRA run's checkpoint or of a folder in PEFT's form. Tensors are read
// one by one.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/hf/adapter.hpp>
#include <mpt/hf/import.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/device/transfer.hpp>

namespace mpt {

class model_source {
 public:
  /// Opens it and reads its configuration; throws when it is none of these. `adapter`: a folder in
  /// PEFT's form, or none. Where `path` is such a folder itself, the model is the one it names.
  explicit model_source(std::filesystem::path const& path,
                        std::filesystem::path const& adapter = {});

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
  [[nodiscard]] std::vector<index> const& shape_of(std::string const& name) const;

  /// Checks that it has tensors of these names and shapes and, if it is another program's, no
  /// others, but for a tied head that was saved besides; one error lists all that differ.
  void require_tensors(std::span<hf::named_shape const> expected) const;

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
  void open();

  /// The end tokens of generation_config.json, where there is one: config.json is not asked then.
  void take_generation_config();

  /// Of a LoRA run's checkpoint.
  void take_adapters(nlohmann::json const& said);

  [[nodiscard]] bool in_adapter(std::string const& name) const;

  template <class T>
  void require_finite(std::string const& name, std::span<T> values) const {
    bool finite = true;
    for (T const value : values) finite = finite && std::isfinite(static_cast<float>(value));
    require(finite, path_.string(), ": ", name,
            " holds values that are NaN or infinite: the weights are damaged, or the run that made "
            "them went wrong; use an earlier checkpoint");
  }

  /// A parameter's name in the Hugging Face folder.
  [[nodiscard]] std::string stored(std::string const& name) const;

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
