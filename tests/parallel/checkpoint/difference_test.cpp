#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <parallel/checkpoint/difference.hpp>
#include <parallel/support/checkpoints.hpp>
#include <parallel/support/files.hpp>

namespace difference_test {
namespace pc = parallel::checkpoint;
using parallel::index;

/// A checkpoint of one rank with the tensor "w" of these values and, if named, an empty tensor.
pc::checkpoint_reader saved(std::filesystem::path const& root, std::vector<float> const& values,
                            std::string const& empty_tensor = {}) {
  pc::save_target const target{root, {0, 1}, 0};
  pc::prepare_save(target);
  pc::rank_writer writer(target, 0);
  writer.add<float>("w", std::vector<index>{static_cast<index>(values.size())}, 0, values);
  if (!empty_tensor.empty()) writer.add<float>(empty_tensor, std::vector<index>{0}, 0, {});
  pc::commit(target, {writer.finish()}, "{}");
  return pc::checkpoint_reader(target.folder());
}

TEST_CASE(
    "checkpoint difference: checkpoints of equal values by different numbers of ranks do not "
    "differ") {
  test::temporary_folder const folder;
  test::save_checkpoint(folder / "a", 3, 1);
  test::save_checkpoint(folder / "b", 3, 5);
  pc::checkpoint_reader const a(folder / "a/ep0-ba3");
  pc::checkpoint_reader const b(folder / "b/ep0-ba3");
  for (std::size_t const piece : {1UL, 16UL, 1UL << 20})
    CHECK(pc::differences(a, b, piece).empty());
}

TEST_CASE(
    "checkpoint difference: differing elements are counted, with the first and largest "
    "difference") {
  test::temporary_folder const folder;
  std::vector<float> values(50, 1.0F);
  auto const a = saved(folder / "a", values);
  values[17] = 1.5F;
  values[40] = -2.0F;
  auto const b = saved(folder / "b", values);
  for (std::size_t const piece : {4UL, 12UL, 1UL << 20}) {
    auto const found = pc::differences(a, b, piece);
    REQUIRE(found.size() == 1);
    CHECK(found[0].tensor == "w");
    CHECK(found[0].form.empty());
    CHECK(found[0].elements == 2);
    CHECK(found[0].first == 17);
    CHECK(found[0].left == 1.0);
    CHECK(found[0].right == 1.5);
    CHECK(found[0].largest == 3.0);
  }
}

TEST_CASE("checkpoint difference: bits are compared, so +0 and -0 differ and a NaN equals itself") {
  test::temporary_folder const folder;
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  auto const a = saved(folder / "a", {0.0F, nan, 1.0F, 2.0F});
  auto const b = saved(folder / "b", {-0.0F, nan, nan, 7.0F});
  CHECK(pc::differences(a, a).empty());
  auto const found = pc::differences(a, b);
  REQUIRE(found.size() == 1);
  CHECK(found[0].elements == 3);
  CHECK(found[0].first == 0);
  CHECK(std::isnan(found[0].largest));
}

TEST_CASE(
    "checkpoint difference: missing tensors and other shapes are listed in the order of names") {
  test::temporary_folder const folder;
  auto const a = saved(folder / "a", {1.0F, 2.0F}, "z");
  auto const b = saved(folder / "b", {1.0F}, "b");
  auto const found = pc::differences(a, b);
  REQUIRE(found.size() == 3);
  CHECK(found[0].tensor == "b");
  CHECK(found[0].form == "only in the second");
  CHECK(found[1].form == "F32 [2] in the first, F32 [1] in the second");
  CHECK(found[2].tensor == "z");
  CHECK(found[2].form == "only in the first");
}

}  // namespace difference_test
