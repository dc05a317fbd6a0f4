// Any layout in, any layout out: what one layout saves another loads, bit for bit, and trains on.
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "load_and_save.hpp"
#include "tiny_run.hpp"

namespace run_checkpoint_test {
namespace {

using namespace tiny_run;
namespace pc = parallel::checkpoint;

std::string name_of(std::size_t g) { return "grid" + std::to_string(g); }

template <class T>
void check_pairs(std::vector<grid> const& all,
                 train_config (*make)(run_files const&, double) = divisible_config) {
  run_files const files;
  auto config = make(files, 3);
  config.optimizer.disable_grad = {{"norm_1.weight", ""}};  // frozen ones are saved, too
  std::vector<fs::path> saved;
  for (std::size_t g = 0; g < all.size(); ++g) {
    auto of = with_layout(config, all[g]);
    of.checkpoint.save_folder = files.folder / name_of(g);
    saved.emplace_back(train<T>(of, all[g].ranks()).checkpoint);
  }
  // where one run goes on alone, the loss of batch 6
  auto longer = config;
  longer.max_duration.count = 6;
  for (std::size_t a = 0; a < all.size(); ++a) {
    std::size_t const b = (a + 1) % all.size();
    CAPTURE(a);
    CAPTURE(b);
    auto const expected = content_of(saved[a]);
    CHECK(expected.contains("transformer.wte.weight"));
    CHECK(expected.contains("transformer.wte.weight#exp_avg"));
    auto const again =
        load_and_save<T>(config, all[b], {.folder = saved[a], .weights_only = false, .note = {}},
                         files.folder / (name_of(a) + "again"));
    CHECK(content_of(again) == expected);

    auto next = longer;
    next.checkpoint.load_path = saved[a];
    double const same = train<T>(with_layout(next, all[a]), all[a].ranks()).loss;
    double const other = train<T>(with_layout(next, all[b]), all[b].ranks()).loss;
    CHECK(other == doctest::Approx(same).epsilon(std::is_same_v<T, float> ? 2e-4 : 2e-2));
  }
}

TEST_CASE("what one layout saves another loads bit for bit, and trains on with the same loss") {
  auto all = grids;
  all.emplace_back();  // one rank
  REQUIRE(all.size() >= 9);
  check_pairs<float>(all);
}

TEST_CASE("[full] what any of twelve layouts saves any other loads bit for bit") {
  auto all = grids;
  all.emplace_back();
  all.push_back({.zero_stage = 2, .data = 3});
  all.push_back({.zero_stage = 3, .data = 2, .parallelism = {.context = 2}});
  REQUIRE(all.size() == 12);
  run_files const files;
  auto const config = divisible_config(files, 3);
  for (std::size_t a = 0; a < all.size(); ++a) {
    CAPTURE(a);
    auto of = with_layout(config, all[a]);
    of.checkpoint.save_folder = files.folder / name_of(a);
    fs::path const saved = train<float>(of, all[a].ranks()).checkpoint;
    auto const expected = content_of(saved);
    CHECK(expected.contains("transformer.wte.weight#exp_avg_sq"));
    for (std::size_t b = 0; b < all.size(); ++b) {
      CAPTURE(b);
      auto const again =
          load_and_save<float>(config, all[b], {.folder = saved, .weights_only = false, .note = {}},
                               files.folder / "again");
      CHECK(content_of(again) == expected);
      fs::remove_all(files.folder / "again");
    }
  }
}

TEST_CASE("the same in bf16 with master weights") {
  check_pairs<parallel::bf16>({grids[3], grids[1], {}});
}

TEST_CASE("slices and shares that are unequal, too: other layouts continue them") {
  auto all = uneven_grids;
  all.emplace_back();
  check_pairs<float>(all, indivisible_config);
}

/// Changes one bit of a tensor's first slice.
void damage(fs::path const& checkpoint, std::string const& tensor) {
  auto const slice = pc::checkpoint_reader(checkpoint).at(tensor).slices.at(0);
  auto const file = checkpoint / slice.file;
  auto content = test::read_all(file);
  content.at(slice.offset + slice.bytes / 2) ^= 1;
  test::write_all(file, content);
}

TEST_CASE("a flipped bit is found by every layout that would read a part of it") {
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

TEST_CASE("columns make one slice a rank, not one a row") {
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
