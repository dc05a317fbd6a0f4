// model_source opens a trained model in any supported form: a checkpoint of ours, the folder of a
// run's checkpoints (of which it takes the latest), a Hugging Face folder, or a Composer
// checkpoint. The model may have adapters, from a LoRA run's checkpoint or from a folder in PEFT's
// form. Tensors are read one by one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <mpt/hf/adapter.hpp>
#include <mpt/hf/import.hpp>
#include <mpt/hf/stored_layout.hpp>
#include <mpt/input_fact.hpp>
#include <mpt/vocabulary.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/device/transfer.hpp>

namespace mpt {

class model_source {
 public:
  /// Opens the model at `path` and reads its configuration. Throws when `path` has none of these
  /// forms. `adapter` is a folder in PEFT's form, or empty. Where `path` itself is such a folder,
  /// the model is the one that it names. `known_model` describes the model in a Hugging Face folder
  /// in place of its config.json, with the overrides of a run; its adapters do not count. Its
  /// vocabulary may be larger: new rows of the embeddings are the mean of those in the folder.
  explicit model_source(std::filesystem::path const& path,
                        std::filesystem::path const& adapter = {},
                        model_config const* known_model = nullptr);

  [[nodiscard]] model_config const& config() const { return config_; }
  /// The type in which the model was trained or stored, such as "float32" or "bfloat16".
  [[nodiscard]] std::string const& dtype() const { return dtype_; }
  /// The checkpoint or folder that was found.
  [[nodiscard]] std::filesystem::path const& path() const { return path_; }
  /// Notes for the user, a sentence each: another checkpoint than the newest was opened, or fields
  /// of config.json have no effect.
  [[nodiscard]] std::vector<std::string> const& notes() const { return notes_; }
  /// The path of the model's tokenizer; empty when it is not known.
  [[nodiscard]] std::string const& tokenizer() const { return tokenizer_; }

  /// The tokens that end a text, as transformers' generate finds them in the model's files:
  /// eos_token_id of generation_config.json, or of config.json where the former does not exist.
  /// Empty: the files name none. Some may be outside the model's vocabulary.
  [[nodiscard]] std::vector<std::int64_t> const& end_tokens() const { return end_tokens_; }

  /// The model for which the adapters of a checkpoint were trained, as far as it is known.
  [[nodiscard]] hf::adapted_model const& base() const { return base_; }

  /// The facts of the files that weights and adapter are read from; see hf::weight_facts.
  [[nodiscard]] input_facts facts(checksum_extent extent) const;

  /// Reads a model of a family with one projection for queries, keys and values, or with three, as
  /// `model` has; adapters need three. A checkpoint that holds three cannot become one, and other
  /// sources stay as they are.
  void match_projections(model_config const& model);

  /// Reads elements of a parameter from `begin` on, converted to T. Throws when an element is NaN
  /// or infinite.
  template <class T>
  void read(std::string const& name, index begin, std::span<T> out) const {
    if (is_in_family_tensors(name))
      layout_->read_parameter(name, begin, out, tensor_reader<T>(name));
    else if (in_adapter(name))
      adapter_->read(name, begin, out);
    else if (auto const rows = stored_rows(name); checkpoint_)
      checkpoint_->read(rows.tensor, rows.begin + begin, out);
    else
      read_imported(stored_name(name), begin, out);
    require_finite(name, out);
  }

  /// Reads `run` elements of a row from `begin` on, and the same columns of the following rows,
  /// until `out` is full. With run 0 it reads consecutive elements.
  template <class T>
  void read_block(std::string const& name, index begin, index run, std::span<T> out) const {
    if (checkpoint_ && !in_adapter(name)) {
      auto const rows = stored_rows(name);
      checkpoint_->read_block(rows.tensor, rows.begin + begin, run, out);
      return require_finite(name, out);
    }
    if (run == 0) return read(name, begin, out);
    if (is_in_family_tensors(name)) {
      index const width = layout_->width_of(name);
      layout_->read_parameter_block(name,
                                    {begin / width, std::ssize(out) / run, begin % width, run}, out,
                                    tensor_reader<T>(name));
      return require_finite(name, out);
    }
    index row_length = 1;
    for (index const extent : std::span(shape_of(name)).subspan(1)) row_length *= extent;
    for (std::size_t offset = 0; offset < out.size();
         offset += static_cast<std::size_t>(run), begin += row_length)
      read(name, begin, out.subspan(offset, static_cast<std::size_t>(run)));
  }

  /// The shape of a parameter. Throws when the model has no such parameter.
  [[nodiscard]] std::vector<index> const& shape_of(std::string const& name) const;

  /// Checks that the model has tensors of these names and shapes. A model of another program may
  /// have no further tensors, except a tied head that was saved too; one error lists all that
  /// differ.
  void require_tensors(std::span<hf::named_shape const> expected) const;

  /// Fills a model's weights, or this rank's slices of them, which are in memory of `device`.
  /// Throws when a tensor is missing, has another shape or does not belong to the model.
  template <class Weights, class Device>
  void load(Weights const& weights, Device const& device) const {
    std::vector<hf::named_shape> tensors;
    weights.for_each([&](auto const& parameter, auto) {
      tensors.push_back({parameter.name, parameter.tensor_extents()});
    });
    require_tensors(tensors);
    weights.for_each([&](auto const& parameter, auto values) {
      parallel::write_from_host(device, values, [&](auto host_values) {
        parameter.for_each_block(0, parameter.size(),
                                 [&](index first, index count, index global, index run) {
                                   read_block(parameter.name, global, run,
                                              host_values.subspan(static_cast<std::size_t>(first),
                                                                  static_cast<std::size_t>(count)));
                                 });
      });
    });
  }

 private:
  /// Consecutive rows of a checkpoint's tensor, from element `begin` on, which are a parameter.
  struct tensor_rows {
    std::string tensor;
    index begin = 0;
    std::vector<index> extents = {};
  };

  /// Opens the model at path_, without a separate adapter. See the constructor for known_model.
  void open(model_config const* known_model);
  /// The same for a Hugging Face folder or a Composer checkpoint.
  void open_hugging_face(model_config const* known_model);

  /// Takes the end tokens from generation_config.json, if it exists, instead of config.json.
  void read_generation_config();

  /// Reads the configuration of the adapters of a LoRA run's checkpoint, and what it says of their
  /// model.
  void read_adapters(nlohmann::json const& state);

  [[nodiscard]] bool in_adapter(std::string const& name) const;

  /// Whether the parameter is read from tensors of a family, in a folder or an adapter.
  [[nodiscard]] bool is_in_family_tensors(std::string const& name) const;

  template <class T>
  void require_finite(std::string const& name, std::span<T> values) const {
    bool finite = true;
    for (T const value : values) finite = finite && std::isfinite(static_cast<float>(value));
    require(finite, path_.string(), ": ", name,
            " holds values that are NaN or infinite: the weights are damaged, or the run that made "
            "them went wrong; use an earlier checkpoint");
  }

  /// The name of a parameter in the Hugging Face folder of an MPT.
  [[nodiscard]] std::string stored_name(std::string const& name) const;

  /// The name of a family's tensor in the folder: without the family's base_prefix if the base
  /// model was saved.
  [[nodiscard]] std::string name_in_folder(std::string const& tensor) const;

  /// Finds queries, keys and values of a checkpoint in the rows of its one projection for them.
  void split_projections();

  /// Where the checkpoint holds a parameter; its extents are left out.
  [[nodiscard]] tensor_rows stored_rows(std::string const& name) const;

  /// Finds the tensors of a family's folder or adapter that hold this model's parameters.
  void find_layout();

  /// The checks of require_tensors for a family.
  void require_family_tensors(std::span<hf::named_shape const> expected) const;

  /// An embedding table of the folder that the model has with more rows.
  struct grown_table {
    std::vector<index> stored_extents;
    std::vector<index> extents;
    std::vector<float> mean_row;  ///< of the stored rows; the new ones equal it
  };

  /// Finds the tables that grow to the model's vocabulary, when the folder's has `vocabulary`
  /// tokens.
  void grow_tables(index vocabulary);

  /// The tensors, of which the folder has grown tables with fewer rows.
  [[nodiscard]] std::vector<hf::named_shape> stored_shapes(
      std::vector<hf::named_shape> tensors) const;

  /// Reads elements of a tensor of the folder, also in rows by which a table has grown.
  template <class T>
  void read_imported(std::string const& tensor, index begin, std::span<T> out) const {
    auto const found = grown_tables_.find(tensor);
    if (found == grown_tables_.end()) return imported_->read(tensor, begin, out);
    auto const& [stored_extents, extents, mean_row] = found->second;
    auto const width = stored_extents.back();
    auto const stored =
        std::clamp<index>(stored_extents.front() * width - begin, 0, std::ssize(out));
    if (stored > 0) imported_->read(tensor, begin, out.first(static_cast<std::size_t>(stored)));
    for (index i = stored; i < std::ssize(out); ++i)
      out[static_cast<std::size_t>(i)] =
          static_cast<T>(mean_row[static_cast<std::size_t>((begin + i) % width)]);
  }

  /// Reads the family's tensors, where `parameter` is stored.
  template <class T>
  [[nodiscard]] auto tensor_reader(std::string const& parameter) const {
    return [this, is_adapted = in_adapter(parameter)](std::string const& tensor, index begin,
                                                      std::span<T> out) {
      if (is_adapted)
        adapter_->read(tensor, begin, out);
      else
        read_imported(name_in_folder(tensor), begin, out);
    };
  }

  std::filesystem::path path_;
  model_config config_;
  std::string dtype_;
  std::string tokenizer_;
  hf::adapted_model base_;
  std::vector<std::string> notes_;
  std::vector<std::int64_t> end_tokens_;
  bool has_fused_names_ = false;  // the folder was written with fuse_norm_attn_norm
  std::optional<parallel::checkpoint::checkpoint_reader> checkpoint_;
  std::map<std::string, tensor_rows> projections_;  // those that split_projections found
  std::optional<hf::hf_import> imported_;
  std::optional<hf::peft_adapter> adapter_;
  model_family const* family_ = nullptr;             // null: an MPT
  std::map<std::string, grown_table> grown_tables_;  // by the tensor's name in the folder
  bool lacks_prefix_ = false;                        // see name_in_folder
  std::optional<hf::stored_layout> layout_ = {};     // of a family's folder or adapter
};

}  // namespace mpt
