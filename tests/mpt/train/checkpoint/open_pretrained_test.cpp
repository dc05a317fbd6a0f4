// A run begins with another program's weights: in every layout each rank reads its own slices,
// which together are the tensors of the files.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/config/model/hf.hpp>
#include <mpt/hf/convert.hpp>
#include <mpt/hf/names.hpp>
#include <mpt/train/checkpoint/open_pretrained.hpp>
#include <mpt/train/checkpoint/run_checkpoint.hpp>
#include <mpt/train/setup/parameter_groups.hpp>
#include <mpt/train/setup/run_mesh.hpp>

#include "mpt/train/load_and_save.hpp"
#include "mpt/train/tiny_run.hpp"
#include "support/golden/golden.hpp"

namespace open_pretrained_test {
namespace {

using namespace tiny_run;
namespace hf = mpt::hf;
namespace pc = parallel::checkpoint;

/// Writes a folder of random weights in shards, with the tensors that `config` describes.
void write(fs::path const& folder, mpt::model_config const& config) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0F, 0.2F);
  hf::hf_export(folder, hf::shapes_of(config),
                [&](std::string const&, parallel::index, std::span<float> out) {
                  for (auto& value : out) value = normal(random);
                },
                {.type = hf::precision::fp32,
                 .config = mpt::to_hf_json(config, "float32"),
                 .max_shard_bytes = 4000});
}

/// Loads the model `source` in a layout, saves what the ranks hold and returns that checkpoint.
fs::path begin_and_save(train_config config, grid const& layout, fs::path const& source,
                        fs::path const& root) {
  config.checkpoint.load_path = source;
  auto const found = mpt::checkpoint_to_load(config.checkpoint);
  REQUIRE(found.has_value());
  CHECK(found->weights_only);
  return load_and_save<float>(std::move(config), layout, *found, root);
}

/// Checks that the checkpoint's parameters equal those of the model, bit for bit.
void check_equal(fs::path const& checkpoint, fs::path const& model) {
  auto const content = content_of(checkpoint);
  mpt::model_source const source(model);
  for (auto const& entry : hf::shapes_of(source.config())) {
    auto const& [name, extents] = entry;
    CAPTURE(entry.name);
    std::vector<float> expected(static_cast<std::size_t>(pc::checked_volume(extents, 4, name)));
    source.read(name, 0, std::span(expected));
    auto const& bytes = content.at(name);
    REQUIRE(bytes.size() == 4 * expected.size());
    CHECK(std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0);
  }
}

TEST_CASE("pretrained weights: every layout holds the folder's weights") {
  run_files const files;
  auto const config = divisible_config(files, 1);
  write(files.folder / "model", config.model);
  CHECK(fs::exists(files.folder / "model/model.safetensors.index.json"));
  auto layouts = grids;
  layouts.emplace_back();
  for (std::size_t g = 0; g < layouts.size(); ++g) {
    CAPTURE(g);
    check_equal(begin_and_save(config, layouts[g], files.folder / "model",
                               files.folder / ("out" + std::to_string(g))),
                files.folder / "model");
  }
}

TEST_CASE("pretrained weights: new adapters for them are the same in every layout") {
  run_files const files;
  auto config = divisible_config(files, 1);
  write(files.folder / "model", config.model);
  config.model.lora = mpt::lora_config{.rank = 3, .targets = {"Wqkv", "out_proj", "down_proj"}};
  auto const load = [&](grid const& layout, std::string const& name) {
    return begin_and_save(config, layout, files.folder / "model", files.folder / name);
  };
  auto const first = load({}, "one");
  check_equal(first, files.folder / "model");
  auto const expected = content_of(first);
  int adapters = 0;
  for (auto const& entry : expected) {
    auto const& [name, bytes] = entry;
    CAPTURE(entry.first);
    bool const zero = std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
    if (name.ends_with(mpt::lora_a_suffix)) CHECK(!zero);
    if (name.ends_with(mpt::lora_b_suffix)) CHECK(zero);
    adapters += mpt::is_adapter(name);
  }
  CHECK(adapters == 2 * 3 * config.model.n_layers);
  for (std::size_t g = 0; g < grids.size(); ++g) {
    CAPTURE(g);
    CHECK(content_of(load(grids[g], std::to_string(g))) == expected);
  }
  // A run with other adapters, or without adapters, is refused.
  auto next = config;
  next.checkpoint.load_path = first;
  next.checkpoint.load_weights_only = true;
  next.model.lora->alpha += 1;
  CHECK(test::contains(test::message_of([&] { (void)train<float>(next); }),
                       "its adapters have lora_alpha = 8, but this run's adapters have 9"));
  next.model.lora.reset();
  CHECK(test::contains(test::message_of([&] { (void)train<float>(next); }),
                       "has adapters, but this run has none"));
}

TEST_CASE("pretrained weights: a pickle is read from one file, shards or Composer's checkpoint") {
  run_files const files;
  auto config = files.config(1);
  auto const golden = test::golden_folder() / "torch";
  config.model = mpt::model_source(golden / "bin").config();
  std::vector<grid> const layouts = {
      {}, {.zero_stage = 3, .data = 2}, {.parallelism = {.tensor = 2, .pipeline = 2}}};
  int count = 0;
  for (auto const* const source : {"bin", "shards", "composer.pt"})
    for (auto const& layout : layouts)
      check_equal(begin_and_save(config, layout, golden / source,
                                 files.folder / ("out" + std::to_string(count++))),
                  golden / source);
}

TEST_CASE("pretrained weights: a folder and the checkpoint imported from it give the same loss") {
  run_files const files;
  auto config = divisible_config(files, 2);
  write(files.folder / "model", config.model);
  config.checkpoint.load_path = mpt::import_hugging_face(mpt::model_source(files.folder / "model"),
                                                         files.folder / "import", {});
  config.checkpoint.load_weights_only = true;
  double const expected = train<float>(config).loss;
  config.checkpoint.load_weights_only = false;
  config.checkpoint.load_path = files.folder / "model";
  CHECK(train<float>(config).loss == expected);
  config.checkpoint.load_path.clear();
  CHECK(train<float>(config).loss != expected);
}

TEST_CASE("pretrained weights: a model of another form is refused with the differences") {
  run_files const files;
  auto config = files.config(1);
  write(files.folder / "model", config.model);
  auto const problem = [&] {
    config.checkpoint.load_path = files.folder / "model";
    return test::message_of([&] { (void)train<float>(config); });
  };
  config.model.attn.alibi = true;
  config.model.learned_pos_emb = false;
  CHECK(test::contains(problem(), "its config.json says attn_config.alibi = false, this run's"));
  config = files.config(1);
  config.model.ffn_hidden_size = 5;
  CHECK(test::contains(problem(), "its config.json says ffn_config"));
  config = files.config(1);
  auto tensors = hf::shapes_of(config.model);
  tensors.pop_back();
  tensors.push_back({"surprise", {3}});
  fs::remove_all(files.folder / "model");
  hf::hf_export(files.folder / "model", tensors,
                [](std::string const&, parallel::index, std::span<float>) {},
                {.type = hf::precision::fp32, .config = mpt::to_hf_json(config.model, "float32")});
  CHECK(test::contains(problem(),
                       "its tensors do not fit its config.json: \"transformer.norm_f.bias\" is "
                       "missing; \"surprise\" is not known to this model"));
}

}  // namespace
}  // namespace open_pretrained_test
