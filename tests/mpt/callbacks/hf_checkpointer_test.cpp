// The Hugging Face folders that all ranks of a run write together hold what its checkpoints hold,
// in any layout.
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <mpt/callbacks/hf_checkpointer.hpp>
#include <mpt/hf/convert.hpp>
#include <mpt/hf/model_source.hpp>
#include <mpt/hf/names.hpp>

#include "mpt/train/tiny_run.hpp"

namespace hf_checkpointer_test {
namespace {

using namespace tiny_run;
namespace hf = mpt::hf;

/// Checks that the parameters of a folder are those of a checkpoint, bit for bit.
void check_equal(fs::path const& folder, fs::path const& checkpoint) {
  auto const content = content_of(checkpoint);
  mpt::model_source const source(folder);
  source.require_tensors(hf::shapes_of(source.config()));
  for (auto const& tensor : hf::shapes_of(source.config())) {
    auto const& [name, extents] = tensor;
    CAPTURE(tensor.name);
    auto const size = parallel::checkpoint::checked_volume(extents, 4, name);
    std::vector<float> values(static_cast<std::size_t>(size));
    source.read(name, 0, std::span(values));
    REQUIRE(content.at(name).size() == 4 * values.size());
    CHECK(std::memcmp(content.at(name).data(), values.data(), 4 * values.size()) == 0);
  }
}

TEST_CASE("hf_checkpointer: every layout writes the folder that its checkpoint converts to") {
  run_files const files;
  auto config = divisible_config(files, 2);
  config.optimizer.disable_grad = {{"norm_1.weight", ""}};  // frozen parameters are written, too
  config.checkpoint.save_interval = {1, mpt::time_unit::batch};
  auto layouts = std::vector<grid>{{}, grids[0], grids[3], grids[4], grids[8]};
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    CAPTURE(i);
    auto const root = files.folder / std::to_string(i);
    config.checkpoint.save_folder = root / "checkpoints";
    config.callbacks.hf_checkpointer = {.save_folder = root / "models",
                                        .save_interval = {1, mpt::time_unit::batch},
                                        .folder_name = "ep{epoch}-ba{batch}"};
    static_cast<void>(train<float>(with_layout(config, layouts[i]), layouts[i].ranks()));
    int folders = 0;
    for (auto const& entry : fs::directory_iterator(root / "models")) {
      check_equal(entry.path(), root / "checkpoints" / entry.path().filename());
      CHECK(fs::exists(entry.path() / "modeling_parallel_mpt.py"));
      ++folders;
    }
    CHECK(folders == 2);
  }
}

TEST_CASE("hf_checkpointer: a LoRA run of any layout writes PEFT's folder of its adapters alone") {
  run_files const files;
  auto config = divisible_config(files, 1);
  config.model.lora = mpt::lora_config{.rank = 3, .targets = {"Wqkv", "out_proj", "up_proj"}};
  for (auto const& layout : {grid{}, grids[0], grids[4]}) {
    test::temporary_folder const root;
    config.checkpoint.save_folder = root / "checkpoints";
    config.callbacks.hf_checkpointer = {.save_folder = root / "adapters",
                                        .save_interval = {1, mpt::time_unit::epoch},
                                        .folder_name = "last",
                                        .precision = "float32"};
    fs::path const checkpoint =
        train<float>(with_layout(config, layout), layout.ranks()).checkpoint;
    mpt::export_adapter(mpt::model_source(checkpoint), root / "converted", {});
    for (char const* const file : {"adapter_config.json", "adapter_model.safetensors"})
      CHECK(test::read_all(root / "adapters/last" / file) ==
            test::read_all(root / "converted" / file));
    CHECK(std::distance(fs::directory_iterator(root / "adapters/last"), {}) == 2);
  }
}

TEST_CASE("hf_checkpointer: writes master weights in bfloat16, and replaces an earlier folder") {
  run_files const files;
  auto config = divisible_config(files, 1);
  config.checkpoint.save_folder = files.folder / "checkpoints";
  config.callbacks.hf_checkpointer = {.save_folder = files.folder / "models",
                                      .save_interval = {1, mpt::time_unit::epoch},
                                      .folder_name = "m",
                                      .precision = "bfloat16"};
  grid const two{.zero_stage = 3, .data = 2};
  fs::path const checkpoint = train<parallel::bf16>(with_layout(config, two), 2).checkpoint;
  mpt::model_source const trained(checkpoint);
  mpt::export_hugging_face(trained, files.folder / "converted", {.dtype = "bfloat16"});
  auto const written = test::read_all(files.folder / "models/m/model.safetensors");
  CHECK(written == test::read_all(files.folder / "converted/model.safetensors"));

  config.checkpoint.save_folder.clear();
  config.run.seed = 18;
  static_cast<void>(train<parallel::bf16>(with_layout(config, two), 2));
  CHECK(test::read_all(files.folder / "models/m/model.safetensors") != written);
  config.callbacks.hf_checkpointer->overwrite = false;
  CHECK(test::contains(test::message_of([&] {
                         static_cast<void>(train<parallel::bf16>(with_layout(config, two), 2));
                       }),
                       "models/m: exists already"));
}

}  // namespace
}  // namespace hf_checkpointer_test
