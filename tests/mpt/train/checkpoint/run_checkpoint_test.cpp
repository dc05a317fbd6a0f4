// A checkpoint that one layout saves is loaded by any other, bit for bit, and training continues.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "mpt/train/load_and_save.hpp"
#include "mpt/train/tiny_run.hpp"

namespace run_checkpoint_test {
namespace {

using namespace tiny_run;
namespace pc = parallel::checkpoint;

std::string to_string(std::size_t g) { return "grid" + std::to_string(g); }

template <class T>
void check_pairs(std::vector<grid> const& layouts,
                 train_config (*make_config)(run_files const&, double) = divisible_config) {
  run_files const files;
  auto config = make_config(files, 3);
  config.optimizer.disable_grad = {{"norm_1.weight", ""}};  // frozen parameters are saved, too
  std::vector<fs::path> saved;
  for (std::size_t g = 0; g < layouts.size(); ++g) {
    auto run_config = with_layout(config, layouts[g]);
    run_config.checkpoint.save_folder = files.folder / to_string(g);
    saved.emplace_back(train<T>(run_config, layouts[g].ranks()).checkpoint);
  }
  // The loss of batch 6 is compared between the saving layout and another one.
  auto longer = config;
  longer.run.max_duration.count = 6;
  for (std::size_t source = 0; source < layouts.size(); ++source) {
    std::size_t const target = (source + 1) % layouts.size();
    CAPTURE(source);
    CAPTURE(target);
    auto const expected = content_of(saved[source]);
    CHECK(expected.contains("transformer.wte.weight"));
    CHECK(expected.contains("transformer.wte.weight#exp_avg"));
    auto const resaved = load_and_save<T>(
        config, layouts[target], {.folder = saved[source], .weights_only = false, .note = {}},
        files.folder / (to_string(source) + "again"));
    CHECK(content_of(resaved) == expected);

    auto next = longer;
    next.checkpoint.load_path = saved[source];
    double const same_layout_loss =
        train<T>(with_layout(next, layouts[source]), layouts[source].ranks()).loss;
    double const other_layout_loss =
        train<T>(with_layout(next, layouts[target]), layouts[target].ranks()).loss;
    CHECK(other_layout_loss ==
          doctest::Approx(same_layout_loss).epsilon(std::is_same_v<T, float> ? 2e-4 : 2e-2));
  }
}

TEST_CASE("run checkpoint: a layout loads another's checkpoint bit for bit and has the same loss") {
  auto layouts = grids;
  layouts.emplace_back();  // one rank
  REQUIRE(layouts.size() >= 9);
  check_pairs<float>(layouts);
}

TEST_CASE(
    "[full] run checkpoint: each of twelve layouts loads the others' checkpoints bit for bit") {
  auto layouts = grids;
  layouts.emplace_back();
  layouts.push_back({.zero_stage = 2, .data = 3});
  layouts.push_back({.zero_stage = 3, .data = 2, .parallelism = {.context = 2}});
  REQUIRE(layouts.size() == 12);
  run_files const files;
  auto const config = divisible_config(files, 3);
  for (std::size_t source = 0; source < layouts.size(); ++source) {
    CAPTURE(source);
    auto run_config = with_layout(config, layouts[source]);
    run_config.checkpoint.save_folder = files.folder / to_string(source);
    fs::path const saved = train<float>(run_config, layouts[source].ranks()).checkpoint;
    auto const expected = content_of(saved);
    CHECK(expected.contains("transformer.wte.weight#exp_avg_sq"));
    for (std::size_t target = 0; target < layouts.size(); ++target) {
      CAPTURE(target);
      auto const resaved = load_and_save<float>(
          config, layouts[target], {.folder = saved, .weights_only = false, .note = {}},
          files.folder / "again");
      CHECK(content_of(resaved) == expected);
      fs::remove_all(files.folder / "again");
    }
  }
}

TEST_CASE("run checkpoint: bf16 with master weights is loaded bit for bit by other layouts") {
  check_pairs<parallel::bf16>({grids[3], grids[1], {}});
}

TEST_CASE(
    "run checkpoint: layouts with unequal slices and shares resume each other's checkpoints") {
  auto layouts = uneven_grids;
  layouts.emplace_back();
  check_pairs<float>(layouts, indivisible_config);
}

/// Changes one bit of a tensor's first slice.
void damage(fs::path const& checkpoint, std::string const& tensor) {
  auto const slice = pc::checkpoint_reader(checkpoint).at(tensor).slices.at(0);
  auto const file = checkpoint / slice.file;
  auto content = test::read_all(file);
  content.at(slice.offset + slice.bytes / 2) ^= 1;
  test::write_all(file, content);
}

TEST_CASE(
    "run checkpoint: every layout that reads a part of a damaged tensor finds a flipped bit") {
  run_files const files;
  auto config = divisible_config(files, 1);
  for (std::string const tensor :
       {"transformer.wte.weight", "transformer.blocks.2.ffn.down_proj.weight#exp_avg_sq"}) {
    CAPTURE(tensor);
    config.checkpoint.save_folder = files.folder / tensor;
    fs::path const saved = train<float>(config).checkpoint;
    damage(saved, tensor);
    auto next = divisible_config(files, 2);
    next.checkpoint.load_path = saved;
    for (std::size_t const g : {0U, 3U, 8U}) {
      CAPTURE(g);
      auto const message = test::message_of(
          [&] { (void)train<float>(with_layout(next, grids[g]), grids[g].ranks()); });
      CHECK(test::contains(message, "of tensor \"" + tensor + "\""));
      CHECK(test::contains(message, "are damaged"));
    }
  }
}

TEST_CASE("run checkpoint: a column-parallel tensor is saved as one slice per rank") {
  run_files const files;
  auto config = divisible_config(files, 1);
  config.checkpoint.save_folder = files.folder / "columns";
  grid const two{.parallelism = {.tensor = 2}};
  pc::checkpoint_reader const reader(train<float>(with_layout(config, two), 2).checkpoint);
  auto const& tensor = reader.at("transformer.blocks.0.ffn.down_proj.weight");
  REQUIRE(tensor.slices.size() == 2);
  for (parallel::index const rank : {0, 1}) {
    auto const& slice = tensor.slices[static_cast<std::size_t>(rank)];
    CHECK(slice.begin == 32 * rank);
    CHECK(slice.run == 32);
    CHECK(slice.stride == 64);
    CHECK(slice.rows() == 16);
  }
}

}  // namespace
}  // namespace run_checkpoint_test
