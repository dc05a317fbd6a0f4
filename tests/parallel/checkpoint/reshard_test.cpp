#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/reshard.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace reshard_test {
namespace pc = parallel::checkpoint;
using parallel::index;

TEST_CASE("reshard: from any number of ranks to any other, with any buffer size") {
  for (index const source_ranks : {1, 3, 8})
    for (index const target_ranks : {1, 2, 5, 300})
      for (std::size_t const piece : {1UL, 40UL, 1UL << 20}) {
        test::temporary_folder const folder;
        test::save_checkpoint(folder / "a", 3, source_ranks);
        pc::checkpoint_reader const source(folder / "a/ep0-ba3");
        auto const resharded = pc::reshard(source, folder / "b", target_ranks, piece);
        CHECK(resharded == folder / "b/ep0-ba3");
        CHECK(test::holds_checkpoint(resharded, 3));
        CHECK(pc::latest(folder / "b").folder == resharded);
        pc::checkpoint_reader const result(resharded);
        std::set<std::string> ranks;
        for (auto const& [name, bytes] : result.files()) ranks.insert(name.substr(0, 10));
        CHECK(static_cast<index>(ranks.size()) <= target_ranks);
        if (target_ranks <= 5) CHECK(static_cast<index>(ranks.size()) == target_ranks);
        for (auto const& [name, tensor] : result.tensors())
          for (auto const& slice : tensor.slices)
            CHECK(slice.bytes <= std::max(piece, parallel::checkpoint::size_of(tensor.type)));
      }
}

TEST_CASE("reshard: a tensor without elements and a slice of columns are preserved") {
  test::temporary_folder const folder;
  pc::save_target const target{folder / "a", {2, 9}, 0};
  pc::prepare_save(target);
  std::vector<index> const extents{3, 4};
  std::vector<std::string> records;
  for (index rank = 0; rank < 2; ++rank) {
    pc::rank_writer writer(target, rank);
    std::vector<float> values;
    for (index row = 0; row < 3; ++row)
      for (index column = 2 * rank; column < 2 * rank + 2; ++column)
        values.push_back(static_cast<float>(row * 4 + column));
    writer.add<float>("columns", extents, 2 * rank, values, 2);
    if (rank == 0) writer.add<float>("empty", std::vector<index>{0, 4}, 0, {});
    records.push_back(writer.finish());
  }
  pc::commit(target, records, "{}");
  auto const resharded = pc::reshard(pc::checkpoint_reader(target.folder()), folder / "b", 2);
  pc::checkpoint_reader const result(resharded);
  CHECK(result.at("empty").extents == std::vector<index>{0, 4});
  std::vector<float> values(12);
  result.read("columns", 0, std::span(values));
  for (std::size_t i = 0; i < 12; ++i) CHECK(values[i] == static_cast<float>(i));
}

TEST_CASE("reshard: a damaged checkpoint is not copied, and an existing one is not replaced") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder / "a", 3, 2);
  test::save_checkpoint(folder / "b", 3, 1);
  pc::checkpoint_reader const source(folder / "a/ep0-ba3");
  CHECK(test::contains(test::message_of([&] { pc::reshard(source, folder / "b", 2); }),
                       "exists already"));
  CHECK(test::contains(test::message_of([&] { pc::reshard(source, folder / "c", 0); }),
                       "expected 1 to 100000 ranks"));
  auto const path = folder / "a/ep0-ba3/rank-00001-F32-000.safetensors";
  auto content = test::read_all(path);
  content.back() ^= 1;
  test::write_all(path, content);
  CHECK(test::contains(test::message_of([&] { pc::reshard(source, folder / "c", 2); }),
                       "are damaged"));
  CHECK_FALSE(std::filesystem::exists(folder / "c"));
}

}  // namespace reshard_test
