// Folders of other families than MPT: read, written as a checkpoint, and exported again.
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <mpt/config/model/family.hpp>
#include <mpt/config/model/hf.hpp>
#include <mpt/hf/convert.hpp>
#include <mpt/hf/names.hpp>
#include <parallel/checkpoint/format/safetensors.hpp>
#include <parallel/support/files.hpp>
#include <support/golden/golden.hpp>
#include <support/golden/golden_forms.hpp>

namespace model_source_families_test {

namespace fs = std::filesystem;
namespace hf = mpt::hf;
using parallel::index;
using parallel::checkpoint::safetensors_file;

safetensors_file golden_file(std::string const& form) {
  return safetensors_file(test::golden_folder() / (form + ".safetensors"));
}

nlohmann::json config_of(safetensors_file const& file) {
  for (auto const& [key, value] : file.metadata())
    if (key == "config") return nlohmann::json::parse(value);
  return {};
}

/// Writes the model of a golden file as transformers would. `changed` may change names and shapes.
template <class Change>
void write_folder(safetensors_file const& file, fs::path const& folder, nlohmann::json config,
                  Change const& changed) {
  std::vector<hf::named_shape> tensors;
  std::vector<std::string> stored;
  for (auto const& tensor : file.tensors()) {
    if (!tensor.name.starts_with("param/")) continue;
    hf::named_shape shape{tensor.name.substr(6), tensor.extents};
    if (!changed(shape)) continue;
    tensors.push_back(shape);
    stored.push_back(tensor.name);
  }
  hf::hf_export(folder, tensors,
                [&](std::string const& name, index begin, std::span<float> out) {
                  for (std::size_t i = 0; i < tensors.size(); ++i)
                    if (tensors[i].name == name) file.read(stored[i], begin, out);
                },
                {.type = hf::precision::fp32, .config = std::move(config)});
}

std::vector<std::byte> bytes_of(safetensors_file const& file, std::string const& tensor) {
  auto const size = file.at(tensor).size();
  std::vector<std::byte> out(static_cast<std::size_t>(size) * sizeof(float));
  file.read_bytes(tensor, 0, size, std::span(out));
  return out;
}

bool unchanged(hf::named_shape const&) { return true; }

TEST_CASE("families: a folder becomes a checkpoint and the same folder again, byte for byte") {
  for (std::string const form : test::golden_families) {
    CAPTURE(form);
    test::temporary_folder const folder;
    auto const file = golden_file(form);
    auto const config = config_of(file);
    write_folder(file, folder / "in", config, unchanged);
    mpt::model_source const trained(
        mpt::import_hugging_face(mpt::model_source(folder / "in"), folder / "run", {}));
    CHECK(trained.config().family == config.at("model_type").get<std::string>());
    mpt::export_hugging_face(trained, folder / "out", {});
    safetensors_file const stored(folder / "out" / "model.safetensors");
    for (auto const& tensor : stored.tensors())
      CHECK(bytes_of(stored, tensor.name) == bytes_of(file, "param/" + tensor.name));
    CHECK(2 * stored.tensors().size() + 4 == file.tensors().size());  // gradients and a batch too
    auto const written = nlohmann::json::parse(test::read_all(folder / "out" / "config.json"));
    CHECK(written.at("model_type") == config.at("model_type"));
    CHECK(written.at("architectures") == config.at("architectures"));
    CHECK(mpt::from_hf_json(written, "out").model == mpt::from_hf_json(config, "in").model);
    CHECK(trained.config() == mpt::from_hf_json(config, "in").model);
  }
}

TEST_CASE("families: a part of a matrix is read as the same elements of the whole") {
  for (std::string const form :
       {"families/llama_grouped", "families/gpt_neox_parallel", "families/gpt2_plain"}) {
    CAPTURE(form);
    test::temporary_folder const folder;
    auto const file = golden_file(form);
    write_folder(file, folder / "in", config_of(file), unchanged);
    mpt::model_source const source(folder / "in");
    for (auto const& parameter : hf::shapes_of(source.config())) {
      CAPTURE(parameter.name);
      auto const& [name, extents] = parameter;
      if (extents.size() < 2) continue;
      index const rows = extents[0], width = extents[1];
      std::vector<float> whole(static_cast<std::size_t>(rows * width));
      source.read(name, 0, std::span(whole));
      index const first_row = 1, row_count = rows - 2, first = 3, run = width - 5;
      std::vector<float> block(static_cast<std::size_t>(row_count * run));
      source.read_block(name, first_row * width + first, run, std::span(block));
      std::vector<float> odd_range(static_cast<std::size_t>(2 * width + 3));
      source.read(name, width - 2, std::span(odd_range));
      for (index i = 0; i < std::ssize(block); ++i)
        REQUIRE(block[static_cast<std::size_t>(i)] ==
                whole[static_cast<std::size_t>((first_row + i / run) * width + first + i % run)]);
      for (index i = 0; i < std::ssize(odd_range); ++i)
        REQUIRE(odd_range[static_cast<std::size_t>(i)] ==
                whole[static_cast<std::size_t>(width - 2 + i)]);
    }
  }
}

TEST_CASE("families: a folder without the prefix of a model with a head is read") {
  test::temporary_folder const folder;
  auto const file = golden_file("families/gpt2_plain");
  write_folder(file, folder / "in", config_of(file), [](hf::named_shape& tensor) {
    tensor.name = tensor.name.substr(std::string("transformer.").size());
    return true;
  });
  mpt::model_source const source(folder / "in");
  source.require_tensors(hf::shapes_of(source.config()));
  float value = 0;
  source.read("transformer.wte.weight", 5, std::span(&value, 1));
  float expected = 0;
  file.read("param/transformer.wte.weight", 5, std::span(&expected, 1));
  CHECK(value == expected);
}

TEST_CASE("families: a checkpoint with one projection is read as three, for adapters") {
  for (std::string const form : {"families/llama_grouped", "families/qwen2_window"}) {
    CAPTURE(form);
    test::temporary_folder const folder;
    auto const file = golden_file(form);
    write_folder(file, folder / "in", config_of(file), unchanged);
    mpt::model_source const whole(folder / "in");
    mpt::model_source source(mpt::import_hugging_face(whole, folder / "run", {}));
    CHECK(source.config().attn.fused_qkv);
    auto model = source.config();
    mpt::separate_projections(model);
    source.match_projections(model);
    CHECK(source.config() == model);
    auto const shapes = hf::shapes_of(model);
    source.require_tensors(shapes);
    for (auto const& [letter, name] : {std::pair{"q", "Wq"}, {"k", "Wk"}, {"v", "Wv"}}) {
      auto const stored = "param/model.layers.1.self_attn." + std::string(letter) + "_proj.weight";
      auto const parameter = "transformer.blocks.1.attn." + std::string(name) + ".weight";
      auto const width = file.at(stored).extents.at(1);
      CHECK(source.shape_of(parameter) == file.at(stored).extents);
      std::vector<float> expected(static_cast<std::size_t>(2 * width)), found(expected.size());
      file.read(stored, width, std::span(expected));
      source.read(parameter, width, std::span(found));
      CHECK(found == expected);
      std::vector<float> column(2);
      source.read_block(parameter, width + 3, 1, std::span(column));
      CHECK(column == std::vector<float>{expected.at(3), expected.at(3 + width)});
    }
  }
}

TEST_CASE("families: a run's overrides describe the folder in place of its config.json") {
  test::temporary_folder const folder;
  auto const file = golden_file("families/llama_grouped");
  auto config = config_of(file);
  config["rope_scaling"] = {{"rope_type", "proportional"}};
  config.erase("rope_parameters");
  write_folder(file, folder / "in", config, unchanged);
  CHECK(test::contains(test::message_of([&] { (void)mpt::model_source(folder / "in"); }),
                       "rope_type: is \"proportional\""));
  auto model = mpt::read_family_json(*mpt::find_family("llama"), config, "config.json",
                                     {{"rope_scaling", nullptr}});
  model.lora = mpt::lora_config{};
  mpt::model_source const source(folder / "in", {}, &model);
  CHECK_FALSE(source.config().lora.has_value());
  CHECK(source.config().attn.rope == model.attn.rope);
  source.require_tensors(hf::shapes_of(source.config()));
}

/// The elements of a tensor of a golden file.
std::vector<float> elements_of(safetensors_file const& file, std::string const& tensor) {
  std::vector<float> out(static_cast<std::size_t>(file.at(tensor).size()));
  file.read(tensor, 0, std::span(out));
  return out;
}

TEST_CASE("families: rows beyond the folder's vocabulary are the mean of those in it") {
  for (std::string const form : {"families/llama_grouped", "families/qwen2_tied",
                                 "families/gpt2_untied", "families/gpt_neox_parallel"}) {
    CAPTURE(form);
    test::temporary_folder const folder;
    auto const file = golden_file(form);
    write_folder(file, folder / "in", config_of(file), unchanged);
    auto model = mpt::from_hf_json(config_of(file), "config.json").model;
    auto const vocabulary = model.vocab_size;
    auto const& family = *mpt::find_family(model.family);
    model.vocab_size += 2;
    mpt::model_source const source(folder / "in", {}, &model);
    source.require_tensors(hf::shapes_of(source.config()));
    std::vector<std::string> tables{"transformer.wte.weight"};
    if (!model.tie_word_embeddings) tables.emplace_back("lm_head.weight");
    for (auto const& table : tables) {
      auto expected =
          elements_of(file, "param/" + mpt::stored_names_of(family, table)->names.front());
      auto const width = static_cast<std::size_t>(model.d_model);
      std::vector<double> sums(width);
      for (std::size_t i = 0; i < expected.size(); ++i) sums[i % width] += expected[i];
      for (std::size_t i = 0; i < 2 * width; ++i)
        expected.push_back(static_cast<float>(sums[i % width] / static_cast<double>(vocabulary)));
      CHECK(source.shape_of(table) == std::vector<index>{model.vocab_size, model.d_model});
      std::vector<float> all(expected.size());
      source.read(table, 0, std::span(all));
      CHECK(all == expected);
      std::vector<float> last(width + 3);
      source.read(table, std::ssize(all) - std::ssize(last), std::span(last));
      CHECK(std::ranges::equal(last, std::span(expected).last(last.size())));
    }
    auto const written = mpt::to_family_json(family, source.config(), "float32");
    CHECK(written.at("vocab_size") == vocabulary + 2);
  }
}

TEST_CASE("families: missing, unknown and misshapen tensors are named as the folder names them") {
  auto const file = golden_file("families/llama_grouped");
  auto const message_with = [&](auto const& change) {
    test::temporary_folder const folder;
    write_folder(file, folder / "in", config_of(file), change);
    mpt::model_source const source(folder / "in");
    return test::message_of([&] { source.require_tensors(hf::shapes_of(source.config())); });
  };
  CHECK(test::contains(message_with([](hf::named_shape& tensor) {
                         return tensor.name != "model.layers.1.self_attn.k_proj.weight";
                       }),
                       "\"model.layers.1.self_attn.k_proj.weight\" is missing"));
  CHECK(test::contains(message_with([](hf::named_shape& tensor) {
                         if (tensor.name == "model.norm.weight") tensor.name = "model.norm.scale";
                         return true;
                       }),
                       "\"model.norm.scale\" is not known to this model"));
  CHECK(test::contains(
      message_with([](hf::named_shape& tensor) {
        if (tensor.name == "model.layers.0.mlp.up_proj.weight")
          tensor.extents = {tensor.extents[1], tensor.extents[0]};
        return true;
      }),
      "\"model.layers.0.mlp.up_proj.weight\" has shape [16, 24], expected [24, 16]"));
}

}  // namespace model_source_families_test
